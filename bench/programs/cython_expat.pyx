# cython: language_level=3
"""libexpat in Cython: a parser that calls three Python functions, as the module pyexpat does."""

cdef extern from "expat.h":
    ctypedef void *XML_Parser
    XML_Parser XML_ParserCreate(const char *)
    void XML_SetUserData(XML_Parser, void *)
    void XML_SetElementHandler(
        XML_Parser,
        void (*)(void *, const char *, const char **) noexcept,
        void (*)(void *, const char *) noexcept,
    )
    void XML_SetCharacterDataHandler(XML_Parser, void (*)(void *, const char *, int) noexcept)
    int XML_Parse(XML_Parser, const char *, int, int)
    void XML_ParserFree(XML_Parser)


# expat cannot propagate exceptions: Cython prints those of these functions and goes on.
cdef void started(void *data, const char *name, const char **attributes) noexcept:
    cdef dict found = {}
    cdef int at = 0
    while attributes[at] != NULL:
        found[attributes[at].decode()] = attributes[at + 1].decode()
        at += 2
    (<Parser>data).start(name.decode(), found)


cdef void ended(void *data, const char *name) noexcept:
    (<Parser>data).end(name.decode())


cdef void said(void *data, const char *text, int size) noexcept:
    (<Parser>data).text(text[:size].decode())


cdef class Parser:
    """A parser of one document."""
    cdef XML_Parser parser
    cdef object start, end, text

    def __cinit__(self, start, end, text):
        self.start, self.end, self.text = start, end, text
        self.parser = XML_ParserCreate(NULL)
        XML_SetUserData(self.parser, <void *>self)
        XML_SetElementHandler(self.parser, started, ended)
        XML_SetCharacterDataHandler(self.parser, said)

    def __dealloc__(self):
        XML_ParserFree(self.parser)

    def parse(self, bytes document not None):
        if XML_Parse(self.parser, document, len(document), 1) != 1:
            raise ValueError("expat has found an error in the document")
