/* The work queue of jobs.c in C++: the same classes, the same functions of the module.
 *
 * Job and Batch are C++ classes; nativecall::define makes classes of native objects of them,
 * nativecall::Ref counts references. */
#include <nativecall/nativeobject.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace
{

using nativecall::Ref;

struct Batch {
    int64_t primes = 0; /* of all jobs that are done */
};

struct Job {
    int64_t low = 0, high = 0;
    int64_t primes = 0;
    NcObject *batch = nullptr; /* known to the class, so the job's end releases it */

    void run()
    {
        primes = 0;
        for (int64_t n = low; n < high; n++) {
            primes += is_prime(n);
        }
    }

  private:
    static bool is_prime(int64_t n)
    {
        for (int64_t i = 2; i * i <= n; i++) {
            if (n % i == 0) {
                return false;
            }
        }
        return n > 1;
    }
};

const NcClass *batch_class;
const NcClass *job_class;
const char *run_key;
const size_t room = 64;               /* in each queue */
std::mutex mutex;                     /* over the queues, batches and `stopping` */
std::condition_variable changed;      /* one of these */
std::deque<NcObject *> waiting, done; /* each object is a reference */
bool stopping = false;
std::vector<std::thread> threads;

/* Return whether there was room. The caller's reference goes with the object. */
bool push(std::deque<NcObject *> &queue, NcObject *object)
{
    if (queue.size() == room) {
        return false;
    }
    queue.push_back(object);
    changed.notify_all();
    return true;
}

/* Return an object with its reference, or NULL. */
NcObject *pop(std::deque<NcObject *> &queue)
{
    if (queue.empty()) {
        return nullptr;
    }
    NcObject *object = queue.front();
    queue.pop_front();
    changed.notify_all();
    return object;
}

extern "C" void job_run(void *self)
{
    static_cast<Job *>(self)->run();
}

void work()
{
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
        changed.wait(lock, [] { return !waiting.empty() || stopping; });
        NcObject *object = pop(waiting);
        if (object == nullptr) {
            return;
        }
        lock.unlock();
        Ref<Job> job = nativecall::cast<Job>(object, job_class);
        void *self = nullptr;
        void *run = nc_object_method(object, run_key, &self); /* that of the object's own class */
        reinterpret_cast<void (*)(void *)>(run)(self);        /* may wait for the GIL */
        lock.lock();
        if (job->batch != nullptr) {
            nativecall::cast<Batch>(job->batch, batch_class)->primes += job->primes;
        }
        changed.wait(lock, [object] { return push(done, object); });
    }
}

void set_stopping(bool value)
{
    std::lock_guard<std::mutex> lock(mutex);
    stopping = value;
    changed.notify_all();
}

PyObject *start(PyObject *, PyObject *number)
{
    const long count = PyLong_AsLong(number);
    if (count == -1 && PyErr_Occurred()) {
        return nullptr;
    }
    if (!threads.empty() || count < 1 || count > 16) {
        PyErr_SetString(PyExc_ValueError, "threads run already, or their number is not 1 to 16");
        return nullptr;
    }
    set_stopping(false);
    for (long i = 0; i < count; i++) {
        threads.emplace_back(work);
    }
    return PyLong_FromLong(count);
}

PyObject *stop(PyObject *, PyObject *)
{
    set_stopping(true);
    Py_BEGIN_ALLOW_THREADS; /* jobs of Python's need the GIL */
    for (std::thread &thread : threads) {
        thread.join();
    }
    Py_END_ALLOW_THREADS;
    threads.clear();
    Py_RETURN_NONE;
}

PyObject *put(PyObject *, PyObject *job)
{
    NcObject *object = nc_object_from_python(job, job_class); /* checked, with a reference */
    if (object == nullptr) {
        return nullptr;
    }
    std::unique_lock<std::mutex> lock(mutex);
    const bool pushed = push(waiting, object);
    lock.unlock();
    if (!pushed) {
        nc_object_release(object);
    }
    return PyBool_FromLong(pushed);
}

PyObject *take(PyObject *, PyObject *)
{
    std::unique_lock<std::mutex> lock(mutex);
    NcObject *object = pop(done);
    lock.unlock();
    if (object == nullptr) {
        Py_RETURN_NONE;
    }
    PyObject *job = nc_object_as_python(object);
    nc_object_release(object);
    return job;
}

bool make_classes()
{
    static const NcField batch_field = {"primes", "q", offsetof(Batch, primes), nullptr};
    static NcField job_fields[] = {{"low", "q", offsetof(Job, low), nullptr},
                                   {"high", "q", offsetof(Job, high), nullptr},
                                   {"primes", "q", offsetof(Job, primes), nullptr},
                                   {"batch", nullptr, offsetof(Job, batch), nullptr}};
    static NcMethod methods[] = {{nullptr, reinterpret_cast<void *>(job_run), 0, 1}};
    if (nc_method_key("run", "v:&q", &run_key) < 0) {
        return false;
    }
    methods[0].key = run_key;
    batch_class = nativecall::define<Batch>("Batch", "jobspp", &batch_field, 1);
    job_fields[3].cls = batch_class; /* what the reference may refer to */
    job_class = batch_class != nullptr
                    ? nativecall::define<Job>("Job", "jobspp", job_fields, 4, methods, 1)
                    : nullptr;
    return job_class != nullptr;
}

PyMethodDef functions[] = {
    {"start", start, METH_O, nullptr}, {"stop", stop, METH_NOARGS, nullptr},
    {"put", put, METH_O, nullptr},     {"take", take, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "jobspp", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit_jobspp()
{
    PyObject *module = PyModule_Create(&definition);
    if (module == nullptr || !make_classes() ||
        PyModule_AddObjectRef(module, "Batch", static_cast<PyObject *>(batch_class->type)) < 0 ||
        PyModule_AddObjectRef(module, "Job", static_cast<PyObject *>(job_class->type)) < 0) {
        return nullptr;
    }
    return module;
}
