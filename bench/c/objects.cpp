/* bench/c/objects.cpp: native objects beside C++'s own: std::make_shared, copies of shared_ptr, and
 * virtual calls.
 *
 *     objects ITERATIONS [ROUNDS]
 *
 * prints one JSON object: for each line the nanoseconds of each round, in the order of the rounds,
 * in which the lines take turns. A second thread exists from the start, as in any program for which
 * the counts are atomic: without one libstdc++ counts a shared_ptr without atomic operations. The
 * payload is a point of two doubles. Pointers are hidden from the compiler before each use, so that
 * no call is made direct and no count is left out.
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <time.h>

#include "nativecall/detail/core/intern.h"
#include "nativecall/detail/objectcount.h"

#define HIDE(variable) __asm__ volatile("" : "+r"(variable) : : "memory")

struct Point {
    double x = 0, y = 0;
};

struct Shape {
    double x = 3, y = 4;
    virtual double sum() { return x + y; }
    virtual ~Shape() {}
};

struct Other : Shape {
    double sum() override { return x - y; }
};

/* Which of them it is only the run knows: else the compiler guesses, and inlines. */
__attribute__((noipa)) static Shape *new_shape(int other)
{
    return other ? new Other : new Shape;
}

static NcClass point_class;
static NcMethod point_method;
static const char *sum_key;

static double point_sum(void *self)
{
    const Point *point = static_cast<const Point *>(self);
    return point->x + point->y;
}

static void make_class()
{
    NcRegistry *registry = nullptr;
    NcClassProblem problem;
    if (nc_registry_new(&registry) != NC_OK ||
        nc_intern(registry, "sum d:P", 7, &sum_key) != NC_OK) {
        std::exit(1);
    }
    point_method.key = sum_key;
    point_method.function = reinterpret_cast<void *>(point_sum);
    point_method.takes_fields = 1;
    point_class.name = "Point";
    point_class.after = 16;
    point_class.type_at = 8;
    point_class.fields_size = sizeof(Point);
    point_class.fields_align = alignof(Point);
    point_class.methods = &point_method;
    point_class.method_count = 1;
    if (nc_class_make(&point_class, nullptr, 0, &problem) != NC_OK) {
        std::exit(1);
    }
}

typedef double (*Body)(size_t count); /* nanoseconds for one */

/* Processor time of this thread, in nanoseconds: other programs do not count. */
static double now()
{
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

template <class Work> static double timed(size_t count, Work work)
{
    const double begun = now();
    for (size_t i = 0; i < count; i++) {
        work();
    }
    return (now() - begun) / static_cast<double>(count);
}

static double make_native(size_t count)
{
    const NcClass *cls = &point_class;
    return timed(count, [&] {
        HIDE(cls);
        NcObject *object = nc_object_new(cls);
        HIDE(object);
        nc_object_release(object);
    });
}

static double make_shared(size_t count)
{
    return timed(count, [] {
        std::shared_ptr<Point> pointer = std::make_shared<Point>();
        Point *inside = pointer.get();
        HIDE(inside);
    });
}

static double retain_native(size_t count)
{
    NcObject *object = nc_object_new(&point_class);
    const double took = timed(count, [&] {
        HIDE(object);
        nc_object_retain(object);
        HIDE(object);
        nc_object_release(object);
    });
    nc_object_release(object);
    return took;
}

static double retain_shared(size_t count)
{
    std::shared_ptr<Point> pointer = std::make_shared<Point>();
    return timed(count, [&] {
        std::shared_ptr<Point> *hidden = &pointer;
        HIDE(hidden);
        std::shared_ptr<Point> copy(*hidden);
        Point *inside = copy.get();
        HIDE(inside);
    });
}

static double call_native(size_t count)
{
    NcObject *object = nc_object_new(&point_class);
    double total = 0;
    const char *key = sum_key;
    const double took = timed(count, [&] {
        void *self = nullptr;
        HIDE(object);
        void *function = nc_object_method(object, key, &self);
        total += reinterpret_cast<double (*)(void *)>(function)(self);
    });
    nc_object_release(object);
    HIDE(key);
    return total < 0 ? -1 : took;
}

static double call_native_at(size_t count)
{
    NcObject *object = nc_object_new(&point_class);
    double total = 0;
    const char *key = sum_key;
    const size_t position = nc_class_position(&point_class, key);
    const double took = timed(count, [&] {
        void *self = nullptr;
        HIDE(object);
        void *function = nc_object_method_at(object, key, position, &self);
        total += reinterpret_cast<double (*)(void *)>(function)(self);
    });
    nc_object_release(object);
    HIDE(key);
    return total < 0 ? -1 : took;
}

static double call_virtual(size_t count)
{
    Shape *shape = new_shape(0);
    double total = 0;
    const double took = timed(count, [&] {
        HIDE(shape);
        total += shape->sum();
    });
    delete shape;
    return total < 0 ? -1 : took;
}

/* What one costs its thread while another does the same with objects of its own. */
static double two_threads(size_t count)
{
    double others = 0;
    std::thread other([&] { others = make_native(count); });
    const double own = make_native(count);
    other.join();
    return (own + others) / 2;
}

static double one_thread(size_t count)
{
    return make_native(count);
}

int main(int argc, char **argv)
{
    const size_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000000;
    const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
    const struct {
        const char *name;
        Body body;
    } lines[] = {
        {"new native", make_native},       {"new shared_ptr", make_shared},
        {"retain native", retain_native},  {"retain shared_ptr", retain_shared},
        {"method native", call_native},    {"method virtual", call_virtual},
        {"method at its position", call_native_at},
        {"one thread", one_thread},        {"two threads", two_threads},
    };
    std::vector<std::vector<double>> found(sizeof lines / sizeof *lines);
    volatile bool over = false;
    std::thread second([&] {
        while (!over) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    });
    make_class();
    for (size_t i = 0; i < found.size(); i++) {
        lines[i].body(count / 10); // else the first line would pay for the start of the process
    }
    for (int round = 0; round < rounds; round++) {
        for (size_t i = 0; i < found.size(); i++) {
            found[i].push_back(lines[i].body(count));
        }
    }
    over = true;
    second.join();
    // The report, as JSON, for bench/rows/objects.py.
    std::printf("{");
    for (size_t i = 0; i < found.size(); i++) {
        std::printf("%s\"%s\": [", i == 0 ? "" : ", ", lines[i].name);
        for (size_t n = 0; n < found[i].size(); n++) {
            std::printf("%s%.3f", n == 0 ? "" : ", ", found[i][n]);
        }
        std::printf("]");
    }
    std::printf("}\n");
    return 0;
}
