/* objectclass.h and objectcount.h: classes are linearised and laid out as they must be, objects are
 * counted by many threads and end once. What the seed asks of objects without Python, each line a
 * test named after it; what it asks of both sides is tests/objects/.
 * Argument: operations of each thread (default 200000). */
#define NC_OBJECT_CHECKED
#include "nativecall/detail/core/intern.h"
#include "nativecall/detail/objectcount.h"

#include "check.h"

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
    CHECK(nc_class_make(&point_class, NULL, 0, &problem) == NC_OK);
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

/* 3. Fields are plain loads, methods are found by their key. */
static void test_fields_are_plain_loads_and_methods_are_virtual_calls(void)
{
    NcObject *object = new_point(3, 4);
    void *self = NULL;
    double (*function)(void *);
    function = (double (*)(void *))(uintptr_t)nc_object_method(object, key("norm d:P"), &self);
    CHECK(self == (void *)NC_FIRST_FIELDS(object, Point));
    CHECK(function != NULL && function(self) == 25);
    function = (double (*)(void *))(uintptr_t)nc_object_method(object, key("sum d:P"), &self);
    CHECK(self == object && function != NULL && function(self) == 7);
    CHECK(nc_object_method(object, key("norm f:P"), &self) == NULL);
    nc_object_release(object);
    CHECK(made == ended);
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

/* ---- bases ----------------------------------------------------------------------------------- */

typedef struct {
    NcClass cls;
    NcField field;
    NcMethod methods[2];
    const NcClass *bases[4];
    size_t base_count;
    char name[8];
} Node;

static double which_is(void *fields)
{
    return *(double *)fields;
}

static int make_node(Node *node, const char *name, size_t size, NcClassProblem *problem)
{
    node->cls.name = name;
    node->cls.after = 16;
    node->cls.type_at = 8;
    node->cls.fields_size = size;
    node->cls.fields_align = size % 8 != 0 ? 1 : size;
    return nc_class_make(&node->cls, node->bases, node->base_count, problem);
}

/* 6, 7. Casts to any base, and the same method through every base; own C3. */
static void test_a_method_is_the_same_through_every_base(void)
{
    static Node a, b, c, d;
    NcClassProblem problem;
    NcObject *object;
    void *self = NULL;
    double (*function)(void *);
    size_t i;
    const char *which = key("which d:P");
    Node *const all[] = {&a, &b, &c, &d};
    for (i = 0; i < 4; i++) {
        all[i]->methods[0].key = which;
        all[i]->methods[0].function = (void *)(uintptr_t)which_is;
        all[i]->methods[0].takes_fields = 1;
        all[i]->cls.methods = all[i]->methods;
    }
    a.cls.method_count = c.cls.method_count = 1;
    b.bases[0] = c.bases[0] = &a.cls;
    b.base_count = c.base_count = 1;
    d.bases[0] = &b.cls;
    d.bases[1] = &c.cls;
    d.base_count = 2;
    CHECK(make_node(&a, "A", 8, &problem) == NC_OK);
    CHECK(make_node(&b, "B", 3, &problem) == NC_OK);
    CHECK(make_node(&c, "C", 8, &problem) == NC_OK);
    CHECK(make_node(&d, "D", 16, &problem) == NC_OK);
    CHECK(d.cls.part_count == 4 && d.cls.parts[0].cls == &d.cls && d.cls.parts[1].cls == &b.cls &&
          d.cls.parts[2].cls == &c.cls && d.cls.parts[3].cls == &a.cls);
    object = nc_object_new(&d.cls);
    for (i = 0; i < 4; i++) {
        char *fields = (char *)nc_object_cast(object, &all[i]->cls);
        CHECK(fields != NULL && fields < (char *)nc_object_head(object));
        CHECK((uintptr_t)fields % all[i]->cls.fields_align == 0);
        memset(fields, (int)i, all[i]->cls.fields_size);
    }
    for (i = 0; i < 4; i++) {
        CHECK(*(char *)nc_object_cast(object, &all[i]->cls) == (char)i);
    }
    /* First bases stay where they are. */
    CHECK((char *)nc_object_cast(object, &a.cls) == (char *)object + a.cls.offset);
    CHECK((char *)nc_object_cast(object, &b.cls) == (char *)object + b.cls.offset);
    *(double *)nc_object_cast(object, &c.cls) = 12;
    *(double *)nc_object_cast(object, &a.cls) = 10;
    function = (double (*)(void *))(uintptr_t)nc_object_method(object, which, &self);
    CHECK(function != NULL && function(self) == 12);
    /* super() goes on in the order of the object's class. */
    function = (double (*)(void *))(uintptr_t)nc_object_super(object, &b.cls, which, &self);
    CHECK(function != NULL && function(self) == 12);
    function = (double (*)(void *))(uintptr_t)nc_object_super(object, &c.cls, which, &self);
    CHECK(function != NULL && function(self) == 10);
    CHECK(nc_object_super(object, &a.cls, which, &self) == NULL);
    CHECK(nc_object_super(object, &point_class, which, &self) == NULL);
    CHECK(nc_object_cast(object, &point_class) == NULL);
    CHECK(nc_class_has_method(&d.cls, which) && !nc_class_has_method(&d.cls, key("which f:P")));
    CHECK(nc_class_derives(&d.cls, &a.cls) && !nc_class_derives(&a.cls, &d.cls));
    nc_object_release(object);
    for (i = 4; i-- > 0;) {
        nc_class_clear(&all[i]->cls);
    }
}

/* Inconsistent orders are refused, and said which. */
static void test_inconsistent_bases_are_refused(void)
{
    static Node a, b, ab, ba, both;
    NcClassProblem problem;
    ab.bases[0] = ba.bases[1] = &a.cls;
    ab.bases[1] = ba.bases[0] = &b.cls;
    ab.base_count = ba.base_count = both.base_count = 2;
    both.bases[0] = &ab.cls;
    both.bases[1] = &ba.cls;
    CHECK(make_node(&a, "A", 8, &problem) == NC_OK);
    CHECK(make_node(&b, "B", 8, &problem) == NC_OK);
    CHECK(make_node(&ab, "AB", 8, &problem) == NC_OK);
    CHECK(make_node(&ba, "BA", 8, &problem) == NC_OK);
    CHECK(make_node(&both, "Both", 8, &problem) == NC_E_RANGE);
    CHECK(problem.first == &a.cls && problem.second == &b.cls);
    CHECK(both.cls.parts == NULL && both.cls.slots == NULL);
    both.bases[1] = &ab.cls;
    CHECK(make_node(&both, "Both", 8, &problem) == NC_E_RANGE);
    CHECK(problem.first == &ab.cls && problem.second == &ab.cls);
    both.bases[0] = &a.cls;
    CHECK(make_node(&both, "Both", 8, &problem) == NC_E_RANGE);
    nc_class_clear(&ba.cls);
    nc_class_clear(&ab.cls);
    nc_class_clear(&b.cls);
    nc_class_clear(&a.cls);
}

/* One name is one thing in all classes of an order. */
static void test_conflicts_are_refused(void)
{
    static Node a, b, both;
    NcClassProblem problem;
    a.field.name = "x";
    a.field.type = "d";
    a.cls.fields = &a.field;
    a.cls.field_count = 1;
    b.methods[0].key = key("x d:P");
    b.cls.methods = b.methods;
    b.cls.method_count = 1;
    both.bases[0] = &a.cls;
    both.bases[1] = &b.cls;
    both.base_count = 2;
    CHECK(make_node(&a, "A", 8, &problem) == NC_OK);
    CHECK(make_node(&b, "B", 8, &problem) == NC_OK);
    CHECK((b.cls.flags & NC_CLASS_ABSTRACT) != 0 && nc_object_new(&b.cls) == NULL);
    CHECK(make_node(&both, "Both", 8, &problem) == NC_E_DUPLICATE);
    CHECK(problem.first == &a.cls && problem.second == &b.cls && problem.first_key == NULL &&
          problem.second_key == b.methods[0].key && strcmp(problem.name, "x") == 0);
    both.base_count = 0;
    both.cls.fields_align = 64;
    CHECK(nc_class_make(&both.cls, both.bases, 0, &problem) == NC_E_RANGE);
    CHECK(problem.name == NULL);
    nc_class_clear(&b.cls);
    nc_class_clear(&a.cls);
}

/* Within one class, too; and fields are where a class has some. */
static void test_fields_and_names_of_one_class(void)
{
    static const NcField twice[] = {{"x", "d", 0, NULL}, {"y", "d", 8, NULL}, {"x", "i", 8, NULL}};
    static const NcField outside = {"x", "d", 16, NULL};
    static const NcField crooked = {"x", NULL, 4, NULL};
    static const NcField beyond = {"x", NULL, 16, NULL};
    const struct {
        const NcField *fields;
        size_t count;
        int status;
    } wrong[] = {{twice, 3, NC_E_DUPLICATE},
                 {&outside, 1, NC_E_RANGE},
                 {&crooked, 1, NC_E_RANGE},
                 {&beyond, 1, NC_E_RANGE}};
    static Node node;
    NcClassProblem problem;
    size_t i;
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        node.cls.fields = wrong[i].fields;
        node.cls.field_count = wrong[i].count;
        CHECK(make_node(&node, "Node", 16, &problem) == wrong[i].status);
        CHECK(problem.first == &node.cls && strcmp(problem.name, "x") == 0);
        CHECK(node.cls.parts == NULL && node.cls.slots == NULL);
    }
    node.cls.fields = twice;
    node.cls.field_count = 1;
    node.methods[0].key = key("x d:P");
    node.cls.methods = node.methods;
    node.cls.method_count = 1;
    CHECK(make_node(&node, "Node", 16, &problem) == NC_E_DUPLICATE);
    CHECK(problem.first_key == node.methods[0].key && problem.second_key == NULL);
    node.cls.field_count = 0;
    node.methods[1].key = key("x f:P");
    node.cls.method_count = 2;
    CHECK(make_node(&node, "Node", 16, &problem) == NC_E_DUPLICATE);
    CHECK(problem.first_key == node.methods[1].key && problem.second_key == node.methods[0].key);
    node.cls.method_count = 1;
    CHECK(make_node(&node, "Node", 16, &problem) == NC_OK);
    nc_class_clear(&node.cls);
}

int main(int argc, char **argv)
{
    work = check_argument(argc, argv, 200000);
    CHECK(nc_registry_new(&registry) == NC_OK);
    make_point_class();
    test_fields_are_plain_loads_and_methods_are_virtual_calls();
    test_references_in_fields_count();
    test_a_long_chain_ends();
    test_counts_are_exact_from_any_thread();
    test_the_last_release_ends_the_object_once();
    test_objects_of_a_block_end_one_by_one();
    test_a_method_is_the_same_through_every_base();
    test_inconsistent_bases_are_refused();
    test_conflicts_are_refused();
    test_fields_and_names_of_one_class();
    nc_class_clear(&point_class);
    nc_registry_free(registry);
    return check_report("nativeobject");
}
