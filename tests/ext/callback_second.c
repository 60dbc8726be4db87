/* tests/ext/callback_second.c: the second of two source files of one shared object.
 *
 * Compiled and linked with callback_consumer.c: both files use callback.h, and share what a shared
 * object has one of. */
#include <nativecall/callback.h>

double sample_of(NcCallback *f, double x);
double by_current(double x);

double by_current(double x)
{
    return sample_of(nc_callback_current(), x);
}
