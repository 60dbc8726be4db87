// callback.hpp: nativecall/callback.h in C++: what Python gives, as a function of a C++ type.
//
// Exceptions are thrown and caught between C++ frames only: a C function, which a callback may be,
// has always returned before anything is thrown. Everything here but what a function does when it
// is called needs the GIL.
#ifndef CALLBACK_HPP
#define CALLBACK_HPP

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <nativecall/callback.h>

// Thrown when a Python exception is set, or will be as soon as the Callback is released.
struct PythonError {};

template <class Signature> class Callback;

// Any callable of Python that takes and gives numbers, prepared; it stays where it is, so there are
// no copies.
template <class Result, class... Arguments> class Callback<Result(Arguments...)>
{
  public:
    // What is taken: native functions without user data, and with it behind the arguments. To be
    // defined for every type that is used.
    static NcCallbackSignature accepted[2];

    Callback(PyObject *callable, unsigned options)
    {
        if (nc_callback_prepare(&callback_, callable, accepted, 2, options) < 0) {
            throw PythonError();
        }
    }
    Callback(const Callback &) = delete;
    Callback &operator=(const Callback &) = delete;

    // Runs while PythonError passes by, and sets the exception that the callback raised. Does
    // nothing after release(), nor without the GIL: see WithoutGil.
    ~Callback()
    {
        if (PyGILState_GetThisThreadState() == nc_thread_unchecked()) {
            (void)nc_callback_release(&callback_);
        }
    }

    // Ends a work that came to its end. A destructor may not throw; this may.
    void release()
    {
        if (nc_callback_release(&callback_) < 0) {
            throw PythonError();
        }
    }

    bool native() const
    {
        return callback_.function != nullptr;
    }

    // work(f) for the f that this callable is. The work is compiled for each type of f, so what
    // f is, is decided here, and never in a loop.
    template <class Work> Result apply(const Work &work)
    {
        if (callback_.function == nullptr) {
            return work(Python{&callback_});
        }
        if (callback_.matched == 0) {
            return work(NC_CALLBACK_FUNCTION(&callback_, Result (*)(Arguments...)));
        }
        return work(WithData{&callback_});
    }

  private:
    // A native function with user data.
    struct WithData {
        const NcCallback *callback;

        Result operator()(Arguments... arguments) const
        {
            return NC_CALLBACK_FUNCTION(callback, Result (*)(Arguments..., void *))(
                arguments..., callback->user_data);
        }
    };

    // What Python calls, which may raise.
    struct Python {
        NcCallback *callback;

        Result operator()(Arguments... arguments) const
        {
            NcCallbackCall call;
            double value = 0.0;
            if (!nc_callback_enter(callback, &call)) {
                throw PythonError();
            }
            PyObject *values[] = {nullptr, PyFloat_FromDouble(arguments)...};
            const size_t count = sizeof...(Arguments);
            bool made = true;
            for (size_t i = 1; i <= count; i++) {
                made = made && values[i] != nullptr;
            }
            PyObject *result =
                made ? PyObject_Vectorcall(call.callable, values + 1,
                                           count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr)
                     : nullptr;
            for (size_t i = 1; i <= count; i++) {
                Py_XDECREF(values[i]);
            }
            if (result != nullptr) {
                value = PyFloat_AsDouble(result);
                Py_DECREF(result);
            }
            if (nc_callback_leave(&call) < 0) {
                throw PythonError();
            }
            return value;
        }
    };

    NcCallback callback_;
};

// No GIL as long as this lives.
class WithoutGil
{
  public:
    WithoutGil() : state_(PyEval_SaveThread())
    {
    }
    WithoutGil(const WithoutGil &) = delete;
    WithoutGil &operator=(const WithoutGil &) = delete;
    // Until 3.13, Python ends a daemon thread that comes here at shutdown, and glibc unwinds it.
    ~WithoutGil() noexcept(false)
    {
        PyEval_RestoreThread(state_);
    }

  private:
    PyThreadState *state_;
};

#endif
