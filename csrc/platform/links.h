/* csrc/platform/links.h: doubly linked lists of structs with these two members:
 *
 *     struct Node *next;
 *     struct Node **from;    the address of the pointer to this node (`first` or a `next`)
 *
 * Threads: the caller guards the list, for instance with the GIL. */
#pragma once

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
