/* A work queue: native threads take jobs from it, run them and hand them back, without the GIL;
 * Python puts jobs in and takes them out. The same in C++: jobs.cpp.
 *
 * Job counts the primes in a range. What is run is its method `run`, found by its key: for a class
 * of Python's that defines `run`, the Python function, for which the thread then takes the GIL.
 * Jobs may share a Batch, to whose sum each adds.
 *
 * The queues are plain C under one mutex. A thread that has the mutex never waits for the GIL, so
 * Python's thread can wait for the mutex while it holds the GIL. */
#include <nativecall/nativeobject.h>

#include <pthread.h>

enum { MOST_THREADS = 16, ROOM = 64 };

typedef struct {
    int64_t primes; /* of all jobs that are done */
} Batch;

typedef struct {
    int64_t low, high; /* the range, without its end */
    int64_t primes;    /* what was found */
    NcObject *batch;   /* NULL, or a counted reference, which the job's end releases */
} Job;

/* A ring; each object in it is a reference. */
typedef struct {
    NcObject *objects[ROOM];
    size_t first, count;
} Queue;

static const NcClass *batch_class;
static const NcClass *job_class;
static const char *run_key;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* over the queues, batches, `stopping` */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* one of these */
static Queue waiting, done;
static int stopping;
static pthread_t threads[MOST_THREADS];
static int running; /* how many threads; changed with the GIL */

/* Return whether there was room. The caller's reference goes with the object. Needs the mutex. */
static int push(Queue *queue, NcObject *object)
{
    if (queue->count == ROOM) {
        return 0;
    }
    queue->objects[(queue->first + queue->count++) % ROOM] = object;
    pthread_cond_broadcast(&changed);
    return 1;
}

/* Return an object with its reference, or NULL. Needs the mutex. */
static NcObject *pop(Queue *queue)
{
    NcObject *object;
    if (queue->count == 0) {
        return NULL;
    }
    object = queue->objects[queue->first];
    queue->first = (queue->first + 1) % ROOM;
    queue->count--;
    pthread_cond_broadcast(&changed);
    return object;
}

static int is_prime(int64_t n)
{
    for (int64_t i = 2; i * i <= n; i++) {
        if (n % i == 0) {
            return 0;
        }
    }
    return n > 1;
}

/* self is the Job: NcMethod.takes_fields. */
static void job_run(void *self)
{
    Job *job = (Job *)self;
    job->primes = 0;
    for (int64_t n = job->low; n < job->high; n++) {
        job->primes += is_prime(n);
    }
}

/* Needs the mutex. */
static void add_to_batch(const Job *job)
{
    if (job->batch != NULL) {
        Batch *batch = (Batch *)nc_object_cast(job->batch, batch_class);
        batch->primes += job->primes;
    }
}

static void *work(void *unused)
{
    pthread_mutex_lock(&mutex);
    for (;;) {
        void *self = NULL;
        void (*run)(void *);
        NcObject *object = pop(&waiting);
        if (object == NULL && stopping) {
            break;
        }
        if (object == NULL) {
            pthread_cond_wait(&changed, &mutex);
            continue;
        }
        pthread_mutex_unlock(&mutex);
        run = (void (*)(void *))(uintptr_t)nc_object_method(object, run_key, &self);
        run(self); /* may wait for the GIL */
        pthread_mutex_lock(&mutex);
        add_to_batch((const Job *)nc_object_cast(object, job_class));
        while (!push(&done, object)) {
            pthread_cond_wait(&changed, &mutex);
        }
    }
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void set_stopping(int value)
{
    pthread_mutex_lock(&mutex);
    stopping = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

/* start(threads) */
static PyObject *start(PyObject *module, PyObject *number)
{
    const long count = PyLong_AsLong(number);
    (void)module;
    if (count == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (running != 0 || count < 1 || count > MOST_THREADS) {
        PyErr_SetString(PyExc_ValueError, "threads run already, or their number is not 1 to 16");
        return NULL;
    }
    set_stopping(0);
    while (running < count && pthread_create(&threads[running], NULL, work, NULL) == 0) {
        running++;
    }
    return PyLong_FromLong(running);
}

/* stop(): when all jobs have been taken out. */
static PyObject *stop(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    set_stopping(1);
    Py_BEGIN_ALLOW_THREADS; /* jobs of Python's need the GIL */
    for (int i = 0; i < running; i++) {
        pthread_join(threads[i], NULL);
    }
    Py_END_ALLOW_THREADS;
    running = 0;
    Py_RETURN_NONE;
}

/* put(job): whether there was room. */
static PyObject *put(PyObject *module, PyObject *job)
{
    NcObject *object = nc_object_from_python(job, job_class); /* checked, with a reference */
    int pushed;
    (void)module;
    if (object == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&mutex);
    pushed = push(&waiting, object);
    pthread_mutex_unlock(&mutex);
    if (!pushed) {
        nc_object_release(object);
    }
    return PyBool_FromLong(pushed);
}

/* take(): a job that is done, or None. */
static PyObject *take(PyObject *module, PyObject *none)
{
    NcObject *object;
    PyObject *job;
    (void)module;
    (void)none;
    pthread_mutex_lock(&mutex);
    object = pop(&done);
    pthread_mutex_unlock(&mutex);
    if (object == NULL) {
        Py_RETURN_NONE;
    }
    job = nc_object_as_python(object);
    nc_object_release(object);
    return job;
}

static int make_classes(void)
{
    static const NcField batch_field = {"primes", "q", offsetof(Batch, primes), NULL};
    static NcField job_fields[] = {{"low", "q", offsetof(Job, low), NULL},
                                   {"high", "q", offsetof(Job, high), NULL},
                                   {"primes", "q", offsetof(Job, primes), NULL},
                                   {"batch", NULL, offsetof(Job, batch), NULL}};
    static NcMethod methods[] = {{NULL, (void *)(uintptr_t)job_run, 0, 1}};
    const NcClass batch = {.name = "Batch",
                           .fields_size = sizeof(Batch),
                           .fields_align = sizeof(int64_t),
                           .fields = &batch_field,
                           .field_count = 1};
    const NcClass job = {.name = "Job",
                         .fields_size = sizeof(Job),
                         .fields_align = sizeof(int64_t),
                         .fields = job_fields,
                         .field_count = 4,
                         .methods = methods,
                         .method_count = 1};
    if (nc_method_key("run", "v:&q", &run_key) < 0) {
        return -1;
    }
    methods[0].key = run_key;
    batch_class = nc_class_define(&batch, NULL, "jobs", NULL);
    job_fields[3].cls = batch_class; /* what the reference may refer to */
    job_class = batch_class != NULL ? nc_class_define(&job, NULL, "jobs", NULL) : NULL;
    return job_class != NULL ? 0 : -1;
}

static PyMethodDef functions[] = {
    {"start", start, METH_O, NULL}, {"stop", stop, METH_NOARGS, NULL},
    {"put", put, METH_O, NULL},     {"take", take, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "jobs", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_jobs(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL || make_classes() < 0 ||
        PyModule_AddObjectRef(module, "Batch", (PyObject *)batch_class->type) < 0 ||
        PyModule_AddObjectRef(module, "Job", (PyObject *)job_class->type) < 0) {
        return NULL;
    }
    return module;
}
