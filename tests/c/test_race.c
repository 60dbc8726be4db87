/* calltable.h and packedtable.h: eight readers find and call, in both tables of an object, while a
 * writer adds, replaces and specialises without pause.
 *
 * Argument: calls of all readers together (default 5000000). Every one is of a real C function
 * that a lookup found, and lookups that find nothing come on top. Meant for ThreadSanitizer, and
 * true without it.
 *
 * An object has its two tables as a native callable has them, and readers look into them as
 * nativecallable.h does: the first entry by plain loads, then the scan. Each entry has a
 * function of its own for each generation (numbered.h): entry * GENERATIONS + generation, which
 * goes up when the entry is replaced. So the readers see
 *
 *     a torn row       number and flags are not those of the signature that was looked for
 *     a lost row       what a reader has found in an object once, it does not find again
 *     a stale row      an older generation than the reader has seen before
 *     a refused row    its flags have the one that the reader refuses
 *
 * Some readers that miss an entry look for it until it is there: it is in the moment when it
 * becomes visible that a row can be torn.
 *
 * The writer begins a new object when the present one has all entries in their last generation.
 * Readers then move on, and who drops the last reference frees the tables, as with Python's
 * objects. The lock of the reference counts is taken once in BATCH lookups, and by the writer for
 * new objects only: it orders nothing that happens within an object. */
#include "nativecall/detail/core/calltable.h"
#include "nativecall/detail/core/intern.h"
#include "nativecall/detail/core/packedtable.h"

#include "check.h"
#include "numbered.h"
#include "published.h"
#include "registry.h"

#include <pthread.h>

enum {
    READERS = 8,
    SIGNATURES = 128,
    ENTRIES = 2 * SIGNATURES, /* each signature once with NC_FLAG_NEEDS_GIL, once without */
    GENERATIONS = 16,
    LAST_WRITE = ENTRIES * GENERATIONS, /* writes until all are in their last generation */
    BATCH = 256,                        /* lookups until a reader asks for the newest object */
    IMPATIENCE = 64,                    /* one miss in so many makes the reader wait: */
    PATIENCE = 200                      /* it looks for the same again, so often at most */
};

/* ---- signatures: an int64_t and a pointer to an array of any length; 1, 3 and 5 words -------- */

typedef struct {
    const char *interned;
    uint64_t words[5];
    size_t count;
} Signature;

static Signature signatures[SIGNATURES];
static NcRegistry *registry;

static void make_signatures(void)
{
    size_t i, counts[6] = {0};

    CHECK(nc_registry_new(&registry) == NC_OK);
    for (i = 0; i < SIGNATURES; i++) {
        static const char *const pointers[] = {"&", "&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&"};
        char text[64];
        const size_t length =
            (size_t)snprintf(text, sizeof text, "q:q%s(%zu)b", pointers[i % 8 == 7], 2 * i + 1);
        Signature *made = &signatures[i];
        CHECK(nc_intern(registry, text, length, &made->interned) == NC_OK);
        CHECK(nc_signature_pack(text, length, 0, made->words, 5, &made->count) == NC_OK);
        counts[made->count]++;
    }
    CHECK(counts[1] > 20 && counts[3] > 20 && counts[5] > 10);
}

/* Entry 2 * i is the one of signature i that needs no GIL, 2 * i + 1 the one that does. */
static uintptr_t flags_of(size_t entry)
{
    const uintptr_t flags = ((entry / 2 * 0x35) & NC_PACKED_FLAGS_ALL & ~NC_FLAG_NEEDS_GIL) |
                            (entry & 1 ? NC_FLAG_NEEDS_GIL : 0);
    return flags | ((flags & NC_ERRORS_MASK) == NC_ERRORS_PYTHON ? NC_FLAG_TAKES_GIL : 0);
}

/* ---- objects --------------------------------------------------------------------------------- */

typedef struct {
    NcCallTable calls;
    NcPackedTable packed;
    size_t number;
    size_t first;      /* the entry that will be the first one */
    size_t references; /* under the lock */
} Object;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Object *newest;     /* under the lock; holds a reference */
static size_t freed;       /* under the lock */
static size_t readers_run; /* atomic: readers that have not finished */
static int start;          /* atomic */

static void drop(Object *object)
{
    size_t left;

    pthread_mutex_lock(&lock);
    left = --object->references;
    freed += left == 0;
    pthread_mutex_unlock(&lock);
    if (left == 0) {
        nc_calltable_clear(&object->calls);
        nc_packedtable_clear(&object->packed);
        free(object);
    }
}

static Object *take_newest(void)
{
    Object *object;

    pthread_mutex_lock(&lock);
    object = newest;
    object->references++;
    pthread_mutex_unlock(&lock);
    return object;
}

/* ---- lookups, as nativecallable.h has them --------------------------------------------------- */

static const PyNativeCallableEntry *find_interned(const Object *object, const char *signature,
                                                  uintptr_t refuse)
{
    const PyNativeCallableEntry *first = published_calls(&object->calls)->entries;

    if (nc_calltable_first_is(first, signature, refuse)) {
        return first;
    }
    return nc_calltable_find(published_calls(&object->calls), signature, refuse);
}

static const uint64_t *find_packed(const Object *object, const Signature *signature,
                                   uintptr_t refuse)
{
    if (signature->count == 1) {
        const uint64_t *first = published_words(&object->packed);
        if (((first[0] ^ signature->words[0]) & NC_PACKED_REFUSE(refuse)) == 0) {
            return first;
        }
    }
    return nc_packed_find(published_words(&object->packed), signature->words, signature->count,
                          NC_PACKED_REFUSE(refuse));
}

/* ---- readers --------------------------------------------------------------------------------- */

enum { INTERNED, PACKED, TABLES };

typedef struct {
    size_t quota; /* calls to make */
    size_t calls, misses, refused_misses, firsts, scans, objects;
    size_t torn, lost, stale, refused; /* what must not be */
    uint64_t state;
    uint64_t dice;   /* of the last lookup */
    size_t patience; /* how often to repeat it */
    unsigned char seen[TABLES][ENTRIES];
} Reader;

static Reader readers[READERS];
static size_t wanted[READERS]; /* atomic: an entry that a reader missed, plus 1; or 0 */

/* Calls what was found, and holds it against what was looked for. */
static void call(Reader *reader, int table, size_t signature, uintptr_t flags, uintptr_t refuse,
                 void *funcptr)
{
    const int64_t argument = (int64_t)(reader->state & 0xFFFFFF);
    const size_t number =
        (size_t)(((NumberedFunction)(uintptr_t)funcptr)(argument, &reader->state) - argument);
    const size_t entry = number / GENERATIONS;
    const unsigned char generation = (unsigned char)(number % GENERATIONS + 1);

    reader->calls++;
    reader->patience = 0;
    if (entry / 2 != signature || entry >= ENTRIES || flags != flags_of(entry)) {
        reader->torn++;
        return;
    }
    reader->refused += (flags & refuse) != 0;
    reader->stale += generation < reader->seen[table][entry];
    reader->seen[table][entry] = generation;
}

static void miss(Reader *reader, int table, size_t signature, uintptr_t refuse, size_t *wants)
{
    const unsigned char *seen = &reader->seen[table][2 * signature];

    reader->misses++;
    reader->refused_misses += refuse != 0 && seen[1] != 0;
    reader->lost += seen[0] != 0 || (refuse == 0 && seen[1] != 0);
    __atomic_store_n(wants, 2 * signature + (refuse == 0 && (reader->dice & 16)) + 1,
                     __ATOMIC_RELAXED);
    if (reader->patience != 0) {
        reader->patience--;
    } else if (check_random(&reader->state) % IMPATIENCE == 0) {
        reader->patience = PATIENCE;
    }
}

static void look(Reader *reader, const Object *object, size_t *wants)
{
    const uint64_t dice = reader->patience != 0 ? reader->dice : check_random(&reader->state);
    const size_t signature = dice & 3 ? (size_t)(dice >> 32) % SIGNATURES : object->first / 2;
    const uintptr_t refuse = dice & 4 ? NC_FLAG_NEEDS_GIL : 0;

    reader->dice = dice;
    if (dice & 8) {
        const PyNativeCallableEntry *found =
            find_interned(object, signatures[signature].interned, refuse);
        if (found == NULL) {
            miss(reader, INTERNED, signature, refuse, wants);
            return;
        }
        reader->firsts += found == published_calls(&object->calls)->entries;
        call(reader, INTERNED, signature, found->flags, refuse, nc_calltable_funcptr(found));
    } else {
        const uint64_t *found = find_packed(object, &signatures[signature], refuse);
        if (found == NULL) {
            miss(reader, PACKED, signature, refuse, wants);
            return;
        }
        reader->firsts += found == published_words(&object->packed);
        call(reader, PACKED, signature, nc_packed_flags(found[0]), refuse,
             nc_packed_funcptr(found, signatures[signature].count));
    }
}

/* Passes over all entries of both tables, and calls each. */
static void scan(Reader *reader, const Object *object)
{
    const PyNativeCallableTable *table = published_calls(&object->calls);
    const uint64_t *row = published_words(&object->packed);
    const size_t promised = nc_calltable_count(table);
    size_t i, s, count;

    for (i = 0; nc_load_acquire_ptr(&table->entries[i].signature) != NULL; i++) {
        const PyNativeCallableEntry *entry = &table->entries[i];
        for (s = 0; s < SIGNATURES && signatures[s].interned != entry->signature; s++) {
        }
        call(reader, INTERNED, s, entry->flags, 0, nc_calltable_funcptr(entry));
    }
    reader->lost += i < promised;
    for (; (count = nc_packed_count(row)) != 0; row += count + 1) {
        const uint64_t word = row[0] & ~NC_PACKED_FLAGS_MASK;
        for (s = 0; s < SIGNATURES; s++) {
            if (signatures[s].count == count && signatures[s].words[0] == word &&
                memcmp(signatures[s].words + 1, row + 1, (count - 1) * sizeof *row) == 0) {
                break;
            }
        }
        call(reader, PACKED, s, nc_packed_flags(row[0]), 0, nc_packed_funcptr(row, count));
    }
    reader->scans++;
}

/* What is seldom: a reader goes on for it, within limits. */
static int has_seen_all(const Reader *reader)
{
    return reader->misses != 0 && reader->refused_misses != 0 && reader->firsts != 0 &&
           reader->scans != 0;
}

static void *read_on(void *argument)
{
    const size_t me = (size_t)(uintptr_t)argument;
    Reader *reader = &readers[me];
    size_t last = SIZE_MAX, i;

    reader->state = me;
    while (!__atomic_load_n(&start, __ATOMIC_ACQUIRE)) {
    }
    while (reader->calls < reader->quota || reader->objects < 2 ||
           (!has_seen_all(reader) && reader->calls < 100 * reader->quota)) {
        Object *object = take_newest();
        if (object->number != last) {
            last = object->number;
            reader->objects++;
            memset(reader->seen, 0, sizeof reader->seen);
        }
        for (i = 0; i < BATCH; i++) {
            look(reader, object, &wanted[me]);
        }
        if (check_random(&reader->state) % 64 == 0) {
            scan(reader, object);
        }
        drop(object);
    }
    __atomic_fetch_sub(&readers_run, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* ---- the writer ------------------------------------------------------------------------------ */

/* What the writer knows of the object it writes to. */
typedef struct {
    Object *object;
    size_t entries[ENTRIES];     /* by position, then those that are not there yet */
    size_t generations[ENTRIES]; /* by position */
    size_t open[ENTRIES];        /* positions not yet in their last generation */
    size_t count, open_count;    /* entries that are there; positions in `open` */
    size_t objects, adds, asked, replacements, exceeded, failed;
    uint64_t state;
} Writer;

/* A new object for readers to find; it is empty when they do. */
static void begin_object(Writer *writer)
{
    Object *object = (Object *)malloc(sizeof *object);
    Object *before;
    size_t i;

    if (object == NULL) {
        perror("race");
        exit(1);
    }
    nc_calltable_init(&object->calls);
    nc_packedtable_init(&object->packed);
    object->number = writer->objects++;
    object->first = (size_t)check_random(&writer->state) % ENTRIES;
    object->references = 1;
    writer->object = object;
    writer->count = writer->open_count = 0;
    for (i = 0; i < ENTRIES; i++) {
        writer->entries[i] = i;
    }
    writer->entries[0] = object->first;
    writer->entries[object->first] = 0;
    pthread_mutex_lock(&lock);
    before = newest;
    newest = object;
    pthread_mutex_unlock(&lock);
    if (before != NULL) {
        drop(before);
    }
}

/* Adds an entry: one that a reader has asked for, else any. */
static void add(Writer *writer)
{
    Object *object = writer->object;
    const uint64_t dice = check_random(&writer->state);
    size_t wish = 0;
    size_t i = writer->count + (size_t)(dice >> 32) % (ENTRIES - writer->count);
    size_t entry, k;
    const Signature *signature;
    uint64_t words[5];

    for (k = 0; k < READERS && wish == 0; k++) {
        wish = __atomic_exchange_n(&wanted[(dice + k) % READERS], 0, __ATOMIC_RELAXED);
    }
    if (writer->count == 0) {
        i = 0;
    } else if (wish != 0) {
        for (k = writer->count; k < ENTRIES && writer->entries[k] != wish - 1; k++) {
        }
        if (k < ENTRIES) {
            i = k;
            writer->asked++;
        }
    }
    entry = writer->entries[i];
    writer->entries[i] = writer->entries[writer->count];
    writer->entries[writer->count] = entry;
    writer->generations[writer->count] = 0;
    writer->open[writer->open_count++] = writer->count++;
    signature = &signatures[entry / 2];
    memcpy(words, signature->words, sizeof words);
    words[0] |= NC_PACKED_FLAGS(flags_of(entry));
    writer->failed +=
        nc_calltable_append(&object->calls, signature->interned, flags_of(entry),
                            (void *)(uintptr_t)numbered[entry * GENERATIONS]) != NC_OK;
    writer->failed +=
        nc_packedtable_append(&object->packed, words, signature->count,
                              (void *)(uintptr_t)numbered[entry * GENERATIONS]) != NC_OK;
    writer->adds++;
}

/* Puts the next generation into an entry. */
static void replace(Writer *writer)
{
    Object *object = writer->object;
    const size_t i = (size_t)check_random(&writer->state) % writer->open_count;
    const size_t position = writer->open[i];
    const size_t generation = ++writer->generations[position];
    void *funcptr =
        (void *)(uintptr_t)numbered[writer->entries[position] * GENERATIONS + generation];

    if (generation == GENERATIONS - 1) {
        writer->open[i] = writer->open[--writer->open_count];
    }
    writer->failed += nc_calltable_replace(&object->calls, position, funcptr) != NC_OK;
    writer->failed += nc_packedtable_replace(&object->packed, position, funcptr) != NC_OK;
    writer->replacements++;
}

/* How many entries of a complete object are not what was last written to them. */
static size_t written_wrong(const Writer *writer)
{
    const PyNativeCallableEntry *entry = published_calls(&writer->object->calls)->entries;
    const uint64_t *row = published_words(&writer->object->packed);
    size_t i, wrong = 0;

    for (i = 0; i < ENTRIES; i++) {
        const Signature *signature = &signatures[writer->entries[i] / 2];
        void *last =
            (void *)(uintptr_t)numbered[writer->entries[i] * GENERATIONS + GENERATIONS - 1];
        wrong +=
            entry[i].signature != signature->interned || nc_calltable_funcptr(&entry[i]) != last;
        wrong += (row[0] & ~NC_PACKED_FLAGS_MASK) != signature->words[0] ||
                 nc_packed_funcptr(row, signature->count) != last;
        row += signature->count + 1;
    }
    return wrong + (entry[ENTRIES].signature != NULL) + (row[0] != 0);
}

static void *write_on(void *argument)
{
    Writer *writer = (Writer *)argument;
    size_t writes = 0;

    while (!__atomic_load_n(&start, __ATOMIC_ACQUIRE)) {
    }
    while (__atomic_load_n(&readers_run, __ATOMIC_ACQUIRE) != 0) {
        const Object *object;
        if (writes++ == LAST_WRITE) {
            writer->failed += written_wrong(writer);
            begin_object(writer);
            writes = 1;
        }
        /* Additions are spread evenly over the object's life. */
        if (writer->open_count == 0 ||
            (writer->count < ENTRIES && check_random(&writer->state) % GENERATIONS == 0)) {
            add(writer);
        } else {
            replace(writer);
        }
        object = writer->object;
        writer->exceeded +=
            object->calls.growth.retired_bytes >= nc_growth_live_bytes(&object->calls.growth);
        writer->exceeded +=
            object->packed.growth.retired_bytes >= nc_growth_live_bytes(&object->packed.growth);
    }
    return NULL;
}

/* ---- the race -------------------------------------------------------------------------------- */

static size_t sum(size_t offset)
{
    size_t i, total = 0;

    for (i = 0; i < READERS; i++) {
        total += *(const size_t *)(const void *)((const char *)&readers[i] + offset);
    }
    return total;
}

#define SUM(field) sum(offsetof(Reader, field))

static void race(size_t calls)
{
    static Writer writer;
    pthread_t threads[READERS + 1];
    size_t i;

    writer.state = 99;
    begin_object(&writer);
    readers_run = READERS;
    for (i = 0; i < READERS; i++) {
        readers[i].quota = (calls + READERS - 1) / READERS;
        CHECK(pthread_create(&threads[i], NULL, read_on, (void *)(uintptr_t)i) == 0);
    }
    CHECK(pthread_create(&threads[READERS], NULL, write_on, &writer) == 0);
    __atomic_store_n(&start, 1, __ATOMIC_RELEASE);
    for (i = 0; i <= READERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    drop(newest);
    printf(
        "race: %d readers made %zu lookups and %zu calls (%zu of first entries), %zu passes over "
        "all entries\n",
        READERS, SUM(calls) + SUM(misses), SUM(calls), SUM(firsts), SUM(scans));
    printf("race: one writer added %zu entries, %zu because a reader had asked, and replaced %zu, "
           "in %zu objects\n",
           writer.adds, writer.asked, writer.replacements, writer.objects);
    CHECK(SUM(torn) == 0);
    CHECK(SUM(lost) == 0);
    CHECK(SUM(stale) == 0);
    CHECK(SUM(refused) == 0);
    CHECK(writer.failed == 0);
    CHECK(writer.exceeded == 0);
    CHECK(freed == writer.objects);
    /* The race took place. */
    CHECK(SUM(calls) >= calls);
    CHECK(SUM(misses) > 0 && SUM(refused_misses) > 0 && SUM(firsts) > 0 && SUM(scans) > 0);
    CHECK(writer.asked > 0 && writer.replacements > writer.adds && writer.objects > 1);
}

int main(int argc, char **argv)
{
    make_signatures();
    race(check_argument(argc, argv, 5000000));
    registry_free(registry);
    return check_report("race");
}
