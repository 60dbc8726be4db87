"""The conformance kit: check other projects' modules against docs/abi.

    python -m nativecall.conformance --provider MODULE:OBJECT
    python -m nativecall.conformance --consumer MODULE:FUNCTION
    python -m nativecall.conformance --runtime MODULE

The kit reports for every rule whether the module conforms. For a violation it prints what was
found, and the section of the specification. docs/conformance.md describes the kit and the protocol
of FUNCTION.

`_rules` defines rules, `_abi` has the structs of the specification and their readers, and
`_provider`, `_consumer` and `_runtime` have the rules of each role. The rules run in a separate
process (`_child`), which loads this folder as a package with another name, because a runtime under
test must be imported before nativecall. So only `__main__` imports nativecall at module level.
"""
