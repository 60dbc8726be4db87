/* Particles that threads make, link and drop without the GIL, while Python watches them.
 *
 * Particle is a C++ class, with a constructor and a destructor, and a class of native objects.
 * simulate(threads, steps) runs threads in each of which a swarm, a chain of particles, falls and
 * bounces; in each step some particles are dropped and others made. Every so often a thread hands
 * one to Python through a queue; watch() gives those that have come. */
#include <nativecall/nativeobject.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace
{

std::atomic<long> living(0);
std::atomic<long> made(0);

struct Particle {
    double height, speed;
    NcObject *next; /* a counted reference, known to the class: released for us */

    explicit Particle(double from = 0) : height(from), speed(0), next(nullptr)
    {
        living++;
        made++;
    }
    ~Particle()
    {
        living--;
    }
};

const NcClass *particle_class;
std::mutex mutex;             /* over the queue */
std::deque<NcObject *> queue; /* each object is a reference */

extern "C" void fall(void *self, double time)
{
    Particle *particle = static_cast<Particle *>(self);
    particle->speed -= 9.81 * time;
    particle->height += particle->speed * time;
    if (particle->height < 0) {
        particle->height = -particle->height;
        particle->speed = -0.9 * particle->speed;
    }
}

typedef nativecall::Ref<Particle> Pointer;

void swarm(long steps)
{
    Pointer first;
    for (long step = 0; step < steps; step++) {
        for (int i = 0; i < 20; i++) { /* new ones in front */
            Pointer fresh = nativecall::make<Particle>(particle_class, 1.0 + i);
            if (first) {
                nc_reference_set(&fresh->next, first.object());
            }
            first = fresh;
        }
        Particle *last = &*first;
        for (int length = 1; last->next != nullptr; length++) {
            fall(last, 0.001);
            if (length == 100) { /* the oldest end, one after the other */
                nc_reference_set(&last->next, nullptr);
                break;
            }
            last = static_cast<Particle *>(nc_object_cast(last->next, particle_class));
        }
        if (step % 1000 == 0) {
            nc_object_retain(first.object());
            std::lock_guard<std::mutex> lock(mutex);
            queue.push_back(first.object());
        }
    }
}

PyObject *simulate(PyObject *, PyObject *args)
{
    int count;
    long steps;
    if (!PyArg_ParseTuple(args, "il", &count, &steps)) {
        return nullptr;
    }
    Py_BEGIN_ALLOW_THREADS;
    std::vector<std::thread> threads;
    for (int i = 0; i < count; i++) {
        threads.emplace_back(swarm, steps);
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
    Py_END_ALLOW_THREADS;
    Py_RETURN_NONE;
}

/* watch(): a particle that a thread has sent, or None. */
PyObject *watch(PyObject *, PyObject *)
{
    std::unique_lock<std::mutex> lock(mutex);
    if (queue.empty()) {
        Py_RETURN_NONE;
    }
    NcObject *object = queue.front();
    queue.pop_front();
    lock.unlock();
    PyObject *seen = nc_object_as_python(object);
    nc_object_release(object);
    return seen;
}

PyObject *counts(PyObject *, PyObject *)
{
    return Py_BuildValue("ll", made.load(), living.load());
}

PyMethodDef functions[] = {
    {"simulate", simulate, METH_VARARGS, nullptr},
    {"watch", watch, METH_NOARGS, nullptr},
    {"counts", counts, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "particles", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit_particles()
{
    static const NcField fields[] = {{"height", "d", offsetof(Particle, height), nullptr},
                                     {"speed", "d", offsetof(Particle, speed), nullptr},
                                     {"next", nullptr, offsetof(Particle, next), nullptr}};
    static NcMethod methods[] = {{nullptr, reinterpret_cast<void *>(fall), 0, 1}};
    PyObject *module = PyModule_Create(&definition);
    if (module == nullptr || nc_method_key("fall", "v:&dd", &methods[0].key) < 0) {
        return nullptr;
    }
    particle_class = nativecall::define<Particle>("Particle", "particles", fields, 3, methods, 1);
    if (particle_class == nullptr ||
        PyModule_AddObjectRef(module, "Particle", static_cast<PyObject *>(particle_class->type)) <
            0) {
        return nullptr;
    }
    return module;
}
