"""The conformance kit: check other projects' modules against docs/abi.

    python -m nativecall.conformance --provider MODULE:OBJECT
    python -m nativecall.conformance --consumer MODULE:FUNCTION
    python -m nativecall.conformance --runtime MODULE

The kit reports for every rule whether the module conforms. If a rule is violated, it prints the
finding and the numbers of the requirements in docs/abi. docs/conformance.md describes the kit and
the protocol of FUNCTION.

`_provider`, `_consumer` and `_runtime` contain the rules of each role. `_rules` registers and runs
rules, and `_abi` reads the structs of the specification. The rules run in a separate process
(`_child`), which loads this folder as a package with a different name. There, a runtime under test
must be imported before nativecall. So only `__main__` imports nativecall at module level.
"""
