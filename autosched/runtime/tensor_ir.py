"""LLVM assembly that checks a PyTorch tensor as a kernel's argument (`call_ir.py`).

`i1 @call.tensor_fits(ptr array, ptr tensor, ptr known, ptr slot)` asks the tensor for its DLTensor
(`dltensor_from_py_object_no_sync` of DLPack's exchange API,
https://dmlc.github.io/dlpack/latest/python_spec.html), which takes a sixth of the time of a NumPy
view, and compares it with `array`, the words of `call_ir.py`. If it fits, its address is stored in
`slot`. A tensor fits when it has memory, of the host, is compact, requires no gradient, and its
negative bit is not set (PyTorch may keep the sign apart from the numbers in memory). Everything
else is checked in Python.

| word | of `known` |
|---|---|
| 0 | PyTorch's tensor type, 0 before the first tensor |
| 1 | dltensor_from_py_object_no_sync |
| 2, 3 | names (Python strings) of an attribute and a method that are False for a plain tensor |
| 4 | Python's False |
| 5 to 8 | PyObject_GetAttr, PyObject_VectorcallMethod, Py_DecRef, PyErr_Clear |

| byte | of a DLTensor |
|---|---|
| 0 | address; below 65536 it is the place in a storage without memory |
| 8 | type of device (1: host), its number |
| 16 | number of dimensions, type of elements (4 bytes each) |
| 24, 32 | addresses of extents and of strides; without strides it is compact |
| 40 | bytes from the address to the first element |
"""

from __future__ import annotations

TENSOR_IR = """
define private i1 @call.compact(i64 %rank, ptr %dims, ptr %strides) {
entry:
  %none = icmp eq ptr %strides, null
  br i1 %none, label %yes, label %each
each:
  %left = phi i64 [ %rank, %entry ], [ %d, %dimension ]
  %wanted = phi i64 [ 1, %entry ], [ %wanted1, %dimension ]
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %dimension, label %yes
dimension:
  %d = sub i64 %left, 1
  %pextent = getelementptr i64, ptr %dims, i64 %d
  %pstride = getelementptr i64, ptr %strides, i64 %d
  %extent = load i64, ptr %pextent
  %stride = load i64, ptr %pstride
  %wanted1 = mul i64 %wanted, %extent
  %equal = icmp eq i64 %stride, %wanted
  %single = icmp eq i64 %extent, 1
  %fine = or i1 %equal, %single
  br i1 %fine, label %each, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

define private i1 @call.is_false(ptr %answer, ptr %known) {
entry:
  %pfalse = getelementptr i64, ptr %known, i64 4
  %false = load ptr, ptr %pfalse
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %clear, label %compare
clear:
  %pclear = getelementptr i64, ptr %known, i64 8
  %clear.error = load ptr, ptr %pclear
  call void %clear.error()
  ret i1 false
compare:
  %same = icmp eq ptr %answer, %false
  %pdecref = getelementptr i64, ptr %known, i64 7
  %decref = load ptr, ptr %pdecref
  call void %decref(ptr %answer)
  ret i1 %same
}

define private i1 @call.is_plain(ptr %tensor, ptr %known) {
entry:
  %self = alloca ptr
  %pname = getelementptr i64, ptr %known, i64 2
  %name = load ptr, ptr %pname
  %pmethod = getelementptr i64, ptr %known, i64 3
  %method = load ptr, ptr %pmethod
  %pget = getelementptr i64, ptr %known, i64 5
  %get = load ptr, ptr %pget
  %pcall = getelementptr i64, ptr %known, i64 6
  %call = load ptr, ptr %pcall
  %attribute = call ptr %get(ptr %tensor, ptr %name)
  %first = call i1 @call.is_false(ptr %attribute, ptr %known)
  br i1 %first, label %ask, label %no
ask:
  store ptr %tensor, ptr %self
  %answer = call ptr %call(ptr %method, ptr %self, i64 1, ptr null)
  %second = call i1 @call.is_false(ptr %answer, ptr %known)
  ret i1 %second
no:
  ret i1 false
}

define private i1 @call.tensor_fits(ptr %array, ptr %tensor, ptr %known, ptr %slot) {
entry:
  %t = alloca [48 x i8], align 8
  %pview = getelementptr i64, ptr %known, i64 1
  %view = load ptr, ptr %pview
  %failed = call i32 %view(ptr %tensor, ptr %t)
  %viewed = icmp eq i32 %failed, 0
  br i1 %viewed, label %fields, label %clear
clear:
  %pclear = getelementptr i64, ptr %known, i64 8
  %clear.error = load ptr, ptr %pclear
  call void %clear.error()
  ret i1 false
fields:
  %start = load i64, ptr %t
  %pdevice = getelementptr i8, ptr %t, i64 8
  %device = load i32, ptr %pdevice
  %prank = getelementptr i8, ptr %t, i64 16
  %rank = load i32, ptr %prank
  %ptype = getelementptr i8, ptr %t, i64 20
  %type = load i32, ptr %ptype
  %pdims = getelementptr i8, ptr %t, i64 24
  %dims = load ptr, ptr %pdims
  %pstrides = getelementptr i8, ptr %t, i64 32
  %strides = load ptr, ptr %pstrides
  %poffset = getelementptr i8, ptr %t, i64 40
  %offset = load i64, ptr %poffset
  %data = add i64 %start, %offset
  store i64 %data, ptr %slot
  %pwtype = getelementptr i64, ptr %array, i64 7
  %wtype64 = load i64, ptr %pwtype
  %wtype = trunc i64 %wtype64 to i32
  %host = icmp eq i32 %device, 1
  %same.type = icmp eq i32 %type, %wtype
  %aligned = call i1 @call.aligned(ptr %array, i64 %data)
  %there = icmp ugt i64 %start, 65535
  %fine1 = and i1 %host, %same.type
  %fine2 = and i1 %fine1, %there
  %fine = and i1 %fine2, %aligned
  br i1 %fine, label %extents, label %no
extents:
  %rank64 = sext i32 %rank to i64
  %same = call i1 @call.same_extents(ptr %array, ptr %dims, i64 %rank64)
  br i1 %same, label %steps, label %no
steps:
  %compact = call i1 @call.compact(i64 %rank64, ptr %dims, ptr %strides)
  br i1 %compact, label %plain, label %no
plain:
  %plain.tensor = call i1 @call.is_plain(ptr %tensor, ptr %known)
  ret i1 %plain.tensor
no:
  ret i1 false
}
"""
