/* csrc/platform/links.h: doubly linked lists of structs with these two members:
 *
 *     struct Node *next;
 *     struct Node **from;    what points to the node: the list's first, or the `next` before it
 *
 * Threads: the caller guards the list, with the GIL for instance. */
#ifndef NC_LINKS_H
#define NC_LINKS_H

/* Inserts a node at the front. */
#define NC_LINK(first, node)                                                                       \
    do {                                                                                           \
        (node)->next = (first);                                                                    \
        (node)->from = &(first);                                                                   \
        if ((first) != NULL) {                                                                     \
            (first)->from = &(node)->next;                                                         \
        }                                                                                          \
        (first) = (node);                                                                          \
    } while (0)

/* Removes a node. */
#define NC_UNLINK(node)                                                                            \
    do {                                                                                           \
        *(node)->from = (node)->next;                                                              \
        if ((node)->next != NULL) {                                                                \
            (node)->next->from = (node)->from;                                                     \
        }                                                                                          \
    } while (0)

#endif
