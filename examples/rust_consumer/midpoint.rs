//! midpoint.rs: the midpoint rule over any Python callable, from docs/abi/find.md alone.
//!
//! No crate, no header and no struct of Python's: the limited API of 3.11, and the offsets of
//! docs/abi/README.md ("The limited API"), read once. `integrate(f, a, b, n) -> (value, native)`.
use std::ffi::{c_char, c_int, c_long, c_void};
use std::mem::transmute;
use std::ptr::{addr_of, addr_of_mut, null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed};

type Word = *const u8; // of an object, a type or any other memory

#[rustfmt::skip]
extern "C" {
    static PyType_Type: u8;
    static PyBaseObject_Type: u8;
    static PyCFunction_Type: u8;
    static _Py_TrueStruct: u8;
    static _Py_FalseStruct: u8;
    fn PyArg_ParseTuple(args: Word, format: *const c_char, ...) -> c_int;
    fn Py_BuildValue(format: *const c_char, ...) -> Word;
    fn PyCapsule_GetPointer(capsule: Word, name: *const c_char) -> Word;
    fn PyDict_GetItemString(dict: Word, key: *const c_char) -> Word;
    fn PyErr_Clear();
    fn PyErr_Occurred() -> Word;
    fn PyEval_RestoreThread(state: *mut c_void);
    fn PyEval_SaveThread() -> *mut c_void;
    fn PyFloat_AsDouble(value: Word) -> f64;
    fn PyImport_GetModuleDict() -> Word;
    fn PyLong_AsSize_t(value: Word) -> usize;
    fn PyModule_Create2(definition: *mut Definition, version: c_int) -> Word;
    fn PyObject_CallFunction(callable: Word, format: *const c_char, ...) -> Word;
    fn PyObject_GetAttrString(obj: Word, name: *const c_char) -> Word;
    fn PyType_GetFlags(kind: Word) -> std::ffi::c_ulong;
    fn PyType_GetSlot(kind: Word, slot: c_int) -> Word;
    fn Py_DecRef(obj: Word);
}

static A: AtomicUsize = AtomicUsize::new(0); // object.__basicsize__
static H: AtomicUsize = AtomicUsize::new(0); // type.__basicsize__
static METATYPE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static D_D: AtomicPtr<u8> = AtomicPtr::new(null_mut());

unsafe fn load(at: Word) -> Word {
    (*(at as *const AtomicPtr<u8>)).load(Acquire)
}

unsafe fn kind_of(obj: Word) -> Word {
    load(obj.add(A.load(Relaxed) - 8))
}

/// Step 1: the runtime, and the interned signature.
unsafe fn look() {
    let module = PyDict_GetItemString(PyImport_GetModuleDict(), c"_extensibletype".as_ptr());
    if module.is_null() {
        return;
    }
    let capsule = PyObject_GetAttrString(module, c"runtime_v1".as_ptr());
    let found = PyCapsule_GetPointer(capsule, c"_extensibletype.runtime_v1".as_ptr());
    Py_DecRef(capsule);
    PyErr_Clear();
    if found.is_null() {
        return;
    }
    let sizes = *(found as *const [u32; 4]); // abi_version, struct_size, type_size, slot_size
    let words = found.add(16) as *const [Word; 5]; // provider, metatype, registry, intern, ready
    let type_size = H.load(Relaxed) + 32;
    if sizes[0] != 1 || sizes[1] < 56 || (sizes[2] as usize) < type_size || sizes[3] != 24
        || (*words).iter().any(|word| word.is_null())
    {
        return;
    }
    let [_, metatype, registry, intern, _] = *words;
    let intern: extern "C" fn(Word, *const c_char, usize, *mut Word) -> c_int = transmute(intern);
    let mut text: Word = null();
    if intern(registry, c"d:d".as_ptr(), 3, &mut text) == 0 {
        METATYPE.store(metatype as *mut u8, Relaxed);
        D_D.store(text as *mut u8, Relaxed);
    }
}

/// Step 2: whether a type is extensible and its calls are those of its call table.
unsafe fn extensible(kind: Word) -> bool {
    let metatype = METATYPE.load(Relaxed) as Word;
    let first = kind_of(kind);
    let mut meta = first;
    while !meta.is_null() && meta != metatype {
        meta = PyType_GetSlot(meta, 48);
    }
    let mut base = kind;
    while first != metatype && !base.is_null() && PyType_GetFlags(base) & 0x100 == 0 {
        base = PyType_GetSlot(base, 48);
    }
    !meta.is_null() && !base.is_null() && PyType_GetSlot(base, 50) == PyType_GetSlot(kind, 50)
}

/// Step 3: the row of a key, or null.
unsafe fn slot(kind: Word, id: u64) -> Word {
    let table = load(kind.add(H.load(Relaxed)));
    if table.is_null() {
        return null();
    }
    let word = |offset| *(table.add(offset) as *const u64);
    let row = |number: u16| table.add(560 + 24 * number as usize);
    let expected = table.add(48) as *const u16;
    let first = row(*expected.add((id.wrapping_mul(0xE220A8397B1DCDAF) >> 56) as usize));
    if *(first as *const u64) == id {
        return first;
    }
    let (x, cells) = (id.wrapping_mul(word(8)), word(16) as *const u16);
    let (g_shift, f_shift) = (word(32) as u32, (word(32) >> 32) as u32);
    let f = (x >> f_shift | word(24)) ^ *cells.add((x >> g_shift) as usize) as u64;
    let found = row(*cells.offset(f as isize));
    if *(found as *const u64) == id { found } else { null() }
}

/// Steps 4 and 6: the function of the first entry "d:d" without a flag of `refuse`, or null.
unsafe fn find(mut obj: Word, refuse: u64) -> Word {
    let a = A.load(Relaxed);
    if kind_of(obj) == addr_of!(PyCFunction_Type) {
        let (m_ml, m_self) = (load(obj.add(a)), load(obj.add(a + 8)));
        let size = |obj: Word| *(kind_of(obj).add(a + 16) as *const usize);
        if !m_self.is_null() && (m_ml as usize).wrapping_sub(m_self as usize) < size(m_self) {
            obj = m_self;
        }
    }
    let kind = kind_of(obj);
    if kind_of(kind) != addr_of!(PyType_Type) && METATYPE.load(Relaxed).is_null() {
        look();
    }
    if METATYPE.load(Relaxed).is_null() || !extensible(kind) {
        return null();
    }
    let mut offset = load(kind.add(H.load(Relaxed) + 8)) as isize;
    if offset == 0 {
        let row = slot(kind, 0x04000001);
        if row.is_null() {
            return null();
        }
        offset = *(row.add(16) as *const isize);
    }
    let mut entry = load(obj.offset(offset)).add(8);
    loop {
        let signature = load(entry);
        let flags = *(entry.add(8) as *const u64);
        if signature.is_null() {
            return null();
        } else if signature == D_D.load(Relaxed) && flags & (refuse | !0xFFFF7F) == 0 {
            return load(entry.add(16));
        }
        entry = entry.add(24);
    }
}

unsafe extern "C" fn integrate(_module: Word, args: Word) -> Word {
    let (mut callable, mut a, mut b, mut n): (Word, f64, f64, c_long) = (null(), 0.0, 0.0, 0);
    let format = c"Oddl".as_ptr();
    if PyArg_ParseTuple(args, format, &mut callable, &mut a, &mut b, &mut n) == 0 {
        return null();
    }
    let step = (b - a) / n as f64;
    let mut sum = 0.0;
    let f = find(callable, 0x71); // needs the GIL, or can fail
    if !f.is_null() {
        let f: extern "C" fn(f64) -> f64 = transmute(f);
        let state = PyEval_SaveThread();
        for i in 0..n {
            sum += f(a + (i as f64 + 0.5) * step);
        }
        PyEval_RestoreThread(state);
        if !PyErr_Occurred().is_null() {
            return null(); // f may have run Python code
        }
    } else {
        for i in 0..n {
            let x = a + (i as f64 + 0.5) * step;
            let result = PyObject_CallFunction(callable, c"d".as_ptr(), x);
            if result.is_null() {
                return null();
            }
            sum += PyFloat_AsDouble(result);
            Py_DecRef(result);
            if !PyErr_Occurred().is_null() {
                return null();
            }
        }
    }
    let native = if f.is_null() { addr_of!(_Py_FalseStruct) } else { addr_of!(_Py_TrueStruct) };
    Py_BuildValue(c"(dO)".as_ptr(), sum * step, native)
}

// ---- the module, as structs of the stable ABI (with the GIL) ----

type Function = unsafe extern "C" fn(Word, Word) -> Word;

#[repr(C)]
struct Method(*const c_char, Option<Function>, c_int, *const c_char);

#[repr(C)]
struct Definition([usize; 5], *const c_char, *const c_char, isize, *const Method, [usize; 4]);

static mut METHODS: [Method; 2] =
    [Method(c"integrate".as_ptr(), Some(integrate), 1, null()), Method(null(), None, 0, null())];
static mut DEFINITION: Definition =
    Definition([1, 0, 0, 0, 0], c"midpoint".as_ptr(), null(), -1, null(), [0; 4]);

#[no_mangle]
pub unsafe extern "C" fn PyInit_midpoint() -> Word {
    for (place, kind) in [(&A, addr_of!(PyBaseObject_Type)), (&H, addr_of!(PyType_Type))] {
        let size = PyObject_GetAttrString(kind, c"__basicsize__".as_ptr());
        place.store(PyLong_AsSize_t(size), Relaxed);
        Py_DecRef(size);
    }
    DEFINITION.4 = addr_of!(METHODS) as *const Method;
    PyModule_Create2(addr_of_mut!(DEFINITION), 3)
}
