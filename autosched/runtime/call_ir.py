"""LLVM assembly of a kernel's checked call from Python: one function for all kernels.

`i32 autosched_call(ptr table, ptr args)` takes a table of what the kernel expects, which
`quick_call.py` fills, and a tuple of objects. If every object is a NumPy array or a PyTorch tensor
that fits, it releases the interpreter's lock, runs the kernel and returns its status. Otherwise it
returns UNFIT before anything runs. It is called with the lock held. It reads the arrays' fields at
the offsets of NumPy's binary interface (tensors: `tensor_ir.py`). The table has the addresses of
the Python functions that it needs, so it links anywhere. It depends on no task; all it needs is in
the table's 8-byte words.

| word | of the table |
|---|---|
| 0 | the kernel, `i32 (ptr slots)` |
| 1 | number of arrays |
| 2, 3 | address of the 32-bit number of threads in the pool (0 is 1), the expected number |
| 4 | NumPy's type of arrays |
| 5 to 8 | PyTuple_Size, PyTuple_GetItem, PyEval_SaveThread, PyEval_RestoreThread |
| 9 | size in bytes of an object's header, before its own fields |
| 10 | address of the words about tensors (`tensor_ir.py`) |
| 11 | the first array's words; those of the others follow, 8 words each |

| word | of an array |
|---|---|
| 0 | its element type (NumPy's dtype object) |
| 1, 2 | number of dimensions, address of their extents |
| 3 | bits that its address must not have |
| 4 | flags that it must have |
| 5 | its size in bytes |
| 6 | 1 when the kernel writes it |
| 7 | DLPack's type of its elements: code, bits and lanes in 8, 8 and 16 bits |
"""

from __future__ import annotations

from autosched.runtime.quick_call import UNFIT
from autosched.runtime.tensor_ir import TENSOR_IR

_NUMPY_IR = """
define private i1 @call.same_extents(ptr %array, ptr %dims, i64 %rank) {
entry:
  %pwrank = getelementptr i64, ptr %array, i64 1
  %wrank = load i64, ptr %pwrank
  %pwdims = getelementptr i64, ptr %array, i64 2
  %wdims = load ptr, ptr %pwdims
  %same.rank = icmp eq i64 %rank, %wrank
  br i1 %same.rank, label %extents, label %no
extents:
  %d = phi i64 [ 0, %entry ], [ %d1, %extent ]
  %more = icmp slt i64 %d, %wrank
  br i1 %more, label %extent, label %yes
extent:
  %pe = getelementptr i64, ptr %dims, i64 %d
  %pw = getelementptr i64, ptr %wdims, i64 %d
  %e = load i64, ptr %pe
  %w = load i64, ptr %pw
  %equal = icmp eq i64 %e, %w
  %d1 = add i64 %d, 1
  br i1 %equal, label %extents, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define private i1 @call.aligned(ptr %array, i64 %data) {
  %pmask = getelementptr i64, ptr %array, i64 3
  %mask = load i64, ptr %pmask
  %low = and i64 %data, %mask
  %fine = icmp eq i64 %low, 0
  ret i1 %fine
}

define private i1 @call.array_fits(ptr %array, ptr %f, ptr %slot) {
entry:
  %data = load i64, ptr %f
  %prank = getelementptr i8, ptr %f, i64 8
  %rank = load i32, ptr %prank
  %pdims = getelementptr i8, ptr %f, i64 16
  %dims = load ptr, ptr %pdims
  %pdescr = getelementptr i8, ptr %f, i64 40
  %descr = load ptr, ptr %pdescr
  %pflags = getelementptr i8, ptr %f, i64 48
  %flags = load i32, ptr %pflags
  %want.descr = load ptr, ptr %array
  %pwflags = getelementptr i64, ptr %array, i64 4
  %wflags64 = load i64, ptr %pwflags
  %wflags = trunc i64 %wflags64 to i32
  %same.type = icmp eq ptr %descr, %want.descr
  %aligned = call i1 @call.aligned(ptr %array, i64 %data)
  %set = and i32 %flags, %wflags
  %flagged = icmp eq i32 %set, %wflags
  %fine1 = and i1 %aligned, %flagged
  %fine = and i1 %fine1, %same.type
  store i64 %data, ptr %slot
  br i1 %fine, label %extents, label %no
extents:
  %rank64 = sext i32 %rank to i64
  %same = call i1 @call.same_extents(ptr %array, ptr %dims, i64 %rank64)
  ret i1 %same
no:
  ret i1 false
}
"""

_ALIASES_IR = """
define private { i64, i64 } @call.span(ptr %arrays, ptr %slots, i64 %i) {
  %words = mul i64 %i, 8
  %array = getelementptr i64, ptr %arrays, i64 %words
  %psize = getelementptr i64, ptr %array, i64 5
  %size = load i64, ptr %psize
  %pslot = getelementptr i64, ptr %slots, i64 %i
  %low = load i64, ptr %pslot
  %high = add i64 %low, %size
  %only = insertvalue { i64, i64 } undef, i64 %low, 0
  %span = insertvalue { i64, i64 } %only, i64 %high, 1
  ret { i64, i64 } %span
}

define private i1 @call.outputs_are_apart(ptr %arrays, ptr %slots, i64 %n) {
entry:
  br label %aliases
aliases:
  %j = phi i64 [ 0, %entry ], [ %j1, %next ]
  %some = icmp slt i64 %j, %n
  br i1 %some, label %written, label %yes
written:
  %jwords = mul i64 %j, 8
  %ja = getelementptr i64, ptr %arrays, i64 %jwords
  %pout = getelementptr i64, ptr %ja, i64 6
  %out = load i64, ptr %pout
  %writes = icmp ne i64 %out, 0
  %jspan = call { i64, i64 } @call.span(ptr %arrays, ptr %slots, i64 %j)
  %jlow = extractvalue { i64, i64 } %jspan, 0
  %jhigh = extractvalue { i64, i64 } %jspan, 1
  br i1 %writes, label %others, label %next
others:
  %k = phi i64 [ 0, %written ], [ %k1, %other ]
  %rest = icmp slt i64 %k, %n
  br i1 %rest, label %other, label %next
other:
  %kspan = call { i64, i64 } @call.span(ptr %arrays, ptr %slots, i64 %k)
  %klow = extractvalue { i64, i64 } %kspan, 0
  %khigh = extractvalue { i64, i64 } %kspan, 1
  %different = icmp ne i64 %k, %j
  %before = icmp ult i64 %jlow, %khigh
  %after = icmp ult i64 %klow, %jhigh
  %both = and i1 %before, %after
  %shared = and i1 %both, %different
  %k1 = add i64 %k, 1
  br i1 %shared, label %no, label %others
next:
  %j1 = add i64 %j, 1
  br label %aliases
yes:
  ret i1 true
no:
  ret i1 false
}
"""

_CALL_IR = """
define i32 @autosched_call(ptr %table, ptr %args) {
entry:
  %pn = getelementptr i64, ptr %table, i64 1
  %n = load i64, ptr %pn
  %pthreads = getelementptr i64, ptr %table, i64 2
  %pwanted = getelementptr i64, ptr %table, i64 3
  %ptype = getelementptr i64, ptr %table, i64 4
  %psize = getelementptr i64, ptr %table, i64 5
  %pitem = getelementptr i64, ptr %table, i64 6
  %psave = getelementptr i64, ptr %table, i64 7
  %prestore = getelementptr i64, ptr %table, i64 8
  %phead = getelementptr i64, ptr %table, i64 9
  %ptensors = getelementptr i64, ptr %table, i64 10
  %arrays = getelementptr i64, ptr %table, i64 11
  %room = add i64 %n, 1
  %slots = alloca i64, i64 %room
  %threads = load ptr, ptr %pthreads
  %word = load atomic i32, ptr %threads monotonic, align 4
  %unstarted = icmp eq i32 %word, 0
  %have = select i1 %unstarted, i32 1, i32 %word
  %wanted = load i64, ptr %pwanted
  %wanted32 = trunc i64 %wanted to i32
  %ready = icmp eq i32 %have, %wanted32
  br i1 %ready, label %tuple, label %unfit
tuple:
  %size = load ptr, ptr %psize
  %item = load ptr, ptr %pitem
  %type = load ptr, ptr %ptype
  %head = load i64, ptr %phead
  %behead = sub i64 %head, 8
  %tensors = load ptr, ptr %ptensors
  %tensor = load ptr, ptr %tensors
  %given = call i64 %size(ptr %args)
  %all = icmp eq i64 %given, %n
  br i1 %all, label %each, label %unfit
each:
  %i = phi i64 [ 0, %tuple ], [ %i1, %next ]
  %left = icmp slt i64 %i, %n
  br i1 %left, label %object, label %aliases
object:
  %words = mul i64 %i, 8
  %array = getelementptr i64, ptr %arrays, i64 %words
  %slot = getelementptr i64, ptr %slots, i64 %i
  %o = call ptr %item(ptr %args, i64 %i)
  %ptype.o = getelementptr i8, ptr %o, i64 %behead
  %type.o = load ptr, ptr %ptype.o
  %numpy = icmp eq ptr %type.o, %type
  br i1 %numpy, label %fields, label %other
fields:
  %f = getelementptr i8, ptr %o, i64 %head
  %array.fits = call i1 @call.array_fits(ptr %array, ptr %f, ptr %slot)
  br label %next
other:
  %is.tensor = icmp eq ptr %type.o, %tensor
  br i1 %is.tensor, label %ask, label %unfit
ask:
  %tensor.fits = call i1 @call.tensor_fits(ptr %array, ptr %o, ptr %tensors, ptr %slot)
  br label %next
next:
  %fits = phi i1 [ %array.fits, %fields ], [ %tensor.fits, %ask ]
  %i1 = add i64 %i, 1
  br i1 %fits, label %each, label %unfit
aliases:
  %apart = call i1 @call.outputs_are_apart(ptr %arrays, ptr %slots, i64 %n)
  br i1 %apart, label %run, label %unfit
run:
  %kernel = load ptr, ptr %table
  %save = load ptr, ptr %psave
  %restore = load ptr, ptr %prestore
  %state = call ptr %save()
  %status = call i32 %kernel(ptr %slots)
  call void %restore(ptr %state)
  ret i32 %status
unfit:
  ret i32 UNFIT
}
""".replace("UNFIT", str(UNFIT))

CALL_IR = _NUMPY_IR + TENSOR_IR + _ALIASES_IR + _CALL_IR
