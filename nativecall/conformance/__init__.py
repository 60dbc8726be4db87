"""The conformance kit: checks other people's modules against docs/abi.

    python -m nativecall.conformance --provider MODULE:OBJECT
    python -m nativecall.conformance --consumer MODULE:FUNCTION
    python -m nativecall.conformance --runtime MODULE

It says of every rule whether it is kept, and of a broken one what was found and which section of
the specification has the rule. docs/conformance.md describes it, with the protocol of FUNCTION.

Inside: `_rules` is how rules are written down, `_abi` the structs of the specification and their
readers, `_provider`, `_consumer` and `_runtime` the rules by role. They run in a process of their
own (`_child`), which loads this folder as a package of another name: a runtime under test must be
imported before nativecall is. So nothing here but `__main__` imports nativecall at once.
"""
