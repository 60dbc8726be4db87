# cython: language_level=3
"""zlib in Cython: a stream that deflates, as zlib.compressobj makes it."""

cdef extern from "zlib.h":
    ctypedef struct z_stream:
        unsigned char *next_in
        unsigned int avail_in
        unsigned char *next_out
        unsigned int avail_out
    int Z_FINISH
    int deflateInit(z_stream *, int)
    int deflate(z_stream *, int)
    int deflateEnd(z_stream *)

cdef enum:
    SIZE = 1 << 14


cdef class Deflate:
    """A stream."""
    cdef z_stream stream
    cdef unsigned char out[SIZE]

    def __cinit__(self, int level):
        if deflateInit(&self.stream, level) != 0:
            raise MemoryError

    def __dealloc__(self):
        deflateEnd(&self.stream)

    def compress(self, const unsigned char[::1] piece not None):
        return self.deflated(&piece[0], piece.shape[0], 0)

    def flush(self):
        return self.deflated(NULL, 0, Z_FINISH)

    cdef bytes deflated(self, const unsigned char *piece, unsigned int size, int flush):
        cdef list packed = []
        self.stream.next_in, self.stream.avail_in = <unsigned char *>piece, size
        self.stream.avail_out = 0
        while self.stream.avail_out == 0:
            self.stream.next_out, self.stream.avail_out = self.out, SIZE
            deflate(&self.stream, flush)
            packed.append(self.out[:SIZE - self.stream.avail_out])
        return b"".join(packed)
