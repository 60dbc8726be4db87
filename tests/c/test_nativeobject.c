/* objectcount.h: objects are counted by many threads and end once, alone, in chains and in blocks.
 * Classes, and what Python has a part in, are in tests/native_objects/.
 * Argument: operations of each thread (default 200000). */
#define NC_OBJECT_CHECKED
#include "nativecall/detail/core/intern.h"
#include "nativecall/detail/objectcount.h"

#include "check.h"
#include "registry.h"

#include <pthread.h>

enum { THREADS = 8 };

static size_t work;
static NcRegistry *registry;
static size_t made;
static size_t ended;

static const char *key(const char *text)
{
    const char *interned = NULL;
    CHECK(nc_intern(registry, text, strlen(text), &interned) == NC_OK);
    return interned;
}

/* ---- a class with a field, a method and a reference ------------------------------------------ */

typedef struct {
    double x, y;
    NcObject *next;
} Point;

static void point_destroy(void *fields)
{
    (void)fields;
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
}

static double point_norm(void *self)
{
    const Point *point = (const Point *)self;
    return point->x * point->x + point->y * point->y;
}

static double point_sum(void *object);

static NcField point_fields[] = {
    {"x", "d", offsetof(Point, x), NULL},
    {"y", "d", offsetof(Point, y), NULL},
    {"next", NULL, offsetof(Point, next), NULL},
};
static NcMethod point_methods[2];
static NcClass point_class;

static double point_sum(void *object)
{
    const Point *point = (const Point *)nc_object_cast(object, &point_class);
    return point->x + point->y;
}

static void make_point_class(void)
{
    NcClassProblem problem;
    point_methods[0].key = key("norm d:P");
    point_methods[0].function = (void *)(uintptr_t)point_norm;
    point_methods[0].takes_fields = 1;
    point_methods[1].key = key("sum d:P");
    point_methods[1].function = (void *)(uintptr_t)point_sum;
    point_class.name = "Point";
    point_class.after = 16;
    point_class.type_at = 8;
    point_class.fields_size = sizeof(Point);
    point_class.fields_align = sizeof(double);
    point_class.destroy = point_destroy;
    point_class.fields = point_fields;
    point_class.field_count = 3;
    point_class.methods = point_methods;
    point_class.method_count = 2;
    CHECK(nc_class_make(&point_class, NULL, NULL, 0, &problem) == NC_OK);
}

static NcObject *new_point(double x, double y)
{
    NcObject *object = nc_object_new(&point_class);
    Point *point = NC_FIRST_FIELDS(object, Point);
    __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
    CHECK((uintptr_t)object % NC_OBJECT_ALIGN == 0);
    CHECK(point == nc_object_cast(object, &point_class));
    CHECK(point->x == 0 && point->y == 0 && point->next == NULL);
    point->x = x;
    point->y = y;
    return object;
}

/* A chain of a million ends without a stack as deep. */
static void test_a_long_chain_ends(void)
{
    NcObject *first = NULL;
    size_t i;
    for (i = 0; i < 1000000; i++) {
        NcObject *object = new_point(1, 1);
        NC_FIRST_FIELDS(object, Point)->next = first;
        first = object;
    }
    nc_object_release(first);
    CHECK(made == ended);
}

static void test_references_in_fields_count(void)
{
    NcObject *a = new_point(1, 2);
    NcObject *b = new_point(3, 4);
    nc_reference_set(&NC_FIRST_FIELDS(a, Point)->next, b);
    CHECK(nc_object_head(b)->count == 2);
    nc_reference_set(&NC_FIRST_FIELDS(a, Point)->next, b);
    CHECK(nc_object_head(b)->count == 2);
    nc_reference_set(&NC_FIRST_FIELDS(a, Point)->next, NULL);
    CHECK(nc_object_head(b)->count == 1);
    nc_reference_give(&NC_FIRST_FIELDS(a, Point)->next, b);
    CHECK(nc_object_head(b)->count == 1);
    nc_object_release(a);
    CHECK(made == ended);
}

/* ---- threads --------------------------------------------------------------------------------- */

static NcObject *shared[4];

/* 1. Objects are made, counted, called and ended without the GIL. 2. Counts are exact. */
static void *count_thread(void *argument)
{
    uint64_t state = (uint64_t)(uintptr_t)argument;
    NcObject *own = new_point(1, 1);
    const char *sum = key("sum d:P");
    size_t i, wrong = 0;
    for (i = 0; i < work; i++) {
        NcObject *other = shared[check_random(&state) % 4];
        void *self = NULL;
        double (*function)(void *);
        switch (check_random(&state) % 4) {
        case 0:
            nc_object_retain(other);
            nc_reference_give(&NC_FIRST_FIELDS(own, Point)->next, other);
            break;
        case 1: {
            NcObject *fresh = new_point(2, 2);
            nc_reference_give(&NC_FIRST_FIELDS(fresh, Point)->next, own);
            own = fresh;
            break;
        }
        case 2:
            nc_object_retain(other);
            function = (double (*)(void *))(uintptr_t)nc_object_method(other, sum, &self);
            wrong += function(self) != 7;
            nc_object_release(other);
            break;
        default:
            nc_reference_set(&NC_FIRST_FIELDS(own, Point)->next, NULL);
        }
    }
    nc_object_release(own);
    CHECK(wrong == 0);
    return NULL;
}

static void test_counts_are_exact_from_any_thread(void)
{
    pthread_t threads[THREADS];
    size_t i;
    for (i = 0; i < 4; i++) {
        shared[i] = new_point(3, 4);
    }
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, count_thread, (void *)(uintptr_t)i) == 0);
    }
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    for (i = 0; i < 4; i++) {
        CHECK(nc_object_head(shared[i])->count == 1);
        nc_object_release(shared[i]);
    }
    CHECK(made == ended);
}

/* The last of several references to end may be anybody's: the object ends once. */
static NcObject *passed;

static void *release_thread(void *argument)
{
    nc_object_release(passed);
    return argument;
}

static void test_the_last_release_ends_the_object_once(void)
{
    pthread_t threads[THREADS];
    size_t i, round;
    for (round = 0; round < 50; round++) {
        passed = new_point(1, 1);
        nc_object_retain_many(passed, THREADS / 2);
        for (i = THREADS / 2 + 1; i < THREADS; i++) {
            nc_object_retain(passed);
        }
        CHECK(nc_object_head(passed)->count == THREADS);
        for (i = 0; i < THREADS; i++) {
            CHECK(pthread_create(&threads[i], NULL, release_thread, NULL) == 0);
        }
        for (i = 0; i < THREADS; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
        }
        CHECK(made == ended);
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

enum { IN_BLOCK = 64 };

static char *in_block;

static NcObject *of_block(size_t index)
{
    return in_block + index * nc_class_stride(&point_class);
}

static void *release_some(void *argument)
{
    size_t i;
    for (i = (size_t)(uintptr_t)argument; i < IN_BLOCK; i += THREADS) {
        nc_object_release(of_block(i));
    }
    return NULL;
}

/* Objects of one block are counted each by itself; the memory goes with the last, in any thread. */
static void test_objects_of_a_block_end_one_by_one(void)
{
    pthread_t threads[THREADS];
    size_t i;
    size_t round;
    for (round = 0; round < 20; round++) {
        in_block = (char *)nc_objects_new(&point_class, IN_BLOCK);
        CHECK(in_block != NULL);
        made += IN_BLOCK;
        for (i = 0; i < IN_BLOCK; i++) {
            Point *point = NC_FIRST_FIELDS(of_block(i), Point);
            CHECK((uintptr_t)of_block(i) % NC_OBJECT_ALIGN == 0);
            CHECK(nc_object_head(of_block(i))->count == 1 && point->x == 0);
            point->x = (double)i;
            if (i % 3 == 1) { /* keeps its neighbour */
                nc_reference_set(&point->next, of_block(i - 1));
            }
        }
        for (i = 0; i < IN_BLOCK; i++) {
            CHECK(NC_FIRST_FIELDS(of_block(i), Point)->x == (double)i);
        }
        for (i = 0; i < THREADS; i++) {
            CHECK(pthread_create(&threads[i], NULL, release_some, (void *)(uintptr_t)i) == 0);
        }
        for (i = 0; i < THREADS; i++) {
            CHECK(pthread_join(threads[i], NULL) == 0);
        }
        CHECK(made == ended);
    }
    CHECK(nc_objects_new(&point_class, 0) == NULL);
    CHECK(nc_objects_new(&point_class, SIZE_MAX / 2) == NULL);
    CHECK(nc_objects_new(&point_class, SIZE_MAX >> NC_OBJECT_INDEX_SHIFT) == NULL);
}

int main(int argc, char **argv)
{
    work = check_argument(argc, argv, 200000);
    CHECK(nc_registry_new(&registry) == NC_OK);
    make_point_class();
    test_references_in_fields_count();
    test_a_long_chain_ends();
    test_counts_are_exact_from_any_thread();
    test_the_last_release_ends_the_object_once();
    test_objects_of_a_block_end_one_by_one();
    nc_class_clear(&point_class);
    registry_free(registry);
    return check_report("nativeobject");
}
