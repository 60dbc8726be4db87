# cython: language_level=3
"""libxml2 in Cython: a document, and nodes whose members are properties."""

cdef extern from "libxml/parser.h":
    ctypedef struct xmlDoc
    ctypedef struct xmlNode:
        int type
        const unsigned char *name
        xmlNode *children
        xmlNode *next
    xmlDoc *xmlReadMemory(const char *, int, const char *, const char *, int)
    xmlNode *xmlDocGetRootElement(const xmlDoc *)
    void xmlFreeDoc(xmlDoc *)


cdef class Document:
    """A document, which is free after `free`."""
    cdef xmlDoc *document

    def __cinit__(self, bytes text not None):
        self.document = xmlReadMemory(text, len(text), NULL, NULL, 0)
        if self.document == NULL:
            raise ValueError("libxml2 has found an error in the document")

    def top(self):
        return made(self, xmlDocGetRootElement(self.document))

    def free(self):
        xmlFreeDoc(self.document)
        self.document = NULL


cdef class Node:
    """A node, which keeps its document."""
    cdef Document document
    cdef xmlNode *node

    @property
    def type(self):
        return self.node.type

    @property
    def name(self):
        return (<const char *>self.node.name).decode()

    @property
    def children(self):
        return made(self.document, self.node.children)

    @property
    def next(self):
        return made(self.document, self.node.next)


cdef Node made(Document document, xmlNode *found):
    if found == NULL:
        return None
    cdef Node node = Node.__new__(Node)
    node.document, node.node = document, found
    return node
