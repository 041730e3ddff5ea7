/* A libcuda.so.1 of one GPU whose memory is the host's and whose kernels do nothing, by which the
   adapter is tried with PyCUDA itself: but for autosched_add, which adds. A line on stderr for each
   launch. Kernels called "faulty" meet an illegal address. Functions that are not here are added by the test: they return 34. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fault;
static int context;

int cuInit(unsigned flags) { return flags; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuGetErrorString(int code, const char **text) {
  *text = code == 700 ? "an illegal memory access was encountered" : code == 2 ? "out of memory" : "other";
  return 0;
}
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "stand-in", size); return device; }
int cuDeviceGetUuid(unsigned char *uuid, int device) { memset(uuid, 7, 16); return device; }
int cuDeviceTotalMem_v2(size_t *size, int device) { *size = 1 << 30; return device; }
int cuDeviceComputeCapability(int *major, int *minor, int device) { *major = 9; *minor = 0; return device; }
int cuDeviceGetAttribute(int *value, int which, int device) {
  *value = which == 75 ? 9 : which == 76 ? 0 : which == 38 ? 1 << 20 : 1000 + which;
  return device;
}
int cuDevicePrimaryCtxRetain(void **made, int device) { *made = &context; return device; }
int cuCtxPushCurrent_v2(void *pushed) { return pushed != &context; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuMemAlloc_v2(unsigned long long *address, size_t size) {
  if (size > 1 << 30) return 2;
  *address = (unsigned long long)aligned_alloc(256, (size + 255) / 256 * 256);
  return 0;
}
int cuMemFree_v2(unsigned long long address) { free((void *)address); return 0; }
int cuMemHostAlloc(void **address, size_t size, unsigned flags) { *address = calloc(size, 1); return flags != 2; }
int cuMemFreeHost(void *address) { free(address); return 0; }
int cuMemHostGetDevicePointer_v2(unsigned long long *device, void *host, unsigned flags) {
  *device = (unsigned long long)host;
  return flags;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size) { memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) { memcpy(to, (void *)from, size); return 0; }
int cuMemsetD8Async(unsigned long long to, unsigned char byte, size_t size, void *stream) {
  memset((void *)to, byte, size);
  return stream != 0;
}
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) {
  *module = (void *)image;
  return image == 0;
}
int cuModuleGetFunction(char **function, void *module, const char *name) {
  *function = strdup(name);
  return module == 0;
}
int cuModuleUnload(void *module) { return module == 0; }
int cuFuncGetAttribute(int *value, int which, char *function) { *value = 100 + which; return function == 0; }
int cuFuncSetAttribute(char *function, int which, int value) {
  fprintf(stderr, "set %s %d %d\n", function, which, value);
  return 0;
}
int cuFuncSetBlockShape(char *function, int x, int y, int z) { return x * y * z == 0; }
static void add(const char *arguments) {
  float *left, *right, *total;
  unsigned long long count;
  memcpy(&left, arguments, 8);
  memcpy(&right, arguments + 8, 8);
  memcpy(&total, arguments + 16, 8);
  memcpy(&count, arguments + 24, 8);
  for (unsigned long long i = 0; i < count; ++i) total[i] = left[i] + right[i];
}
int cuLaunchKernel(char *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  fprintf(stderr, "launch %s %u %u %u, %u %u %u, shared %u, %zu bytes\n", function, gx, gy, gz, bx, by,
          bz, shared, extra ? *(size_t *)extra[3] : (size_t)0);
  if (!strcmp(function, "faulty")) fault = 700;
  if (!strcmp(function, "autosched_add")) add(extra[1]);
  return stream != 0 || params != 0;
}
int cuEventCreate(void **event, unsigned flags) { *event = malloc(1 + flags); return 0; }
int cuEventRecord(void *event, void *stream) { return event == 0 || stream != 0; }
int cuEventSynchronize(void *event) { return event == 0 ? 1 : fault; }
int cuEventElapsedTime_v2(float *ms, void *first, void *last) { *ms = 2; return first == last; }
int cuEventElapsedTime(float *ms, void *first, void *last) { *ms = 2; return first == last; }
int cuEventDestroy_v2(void *event) { free(event); return 0; }
