"""Words that have a meaning in C, C++ or their headers, so that no name may be one of them."""

from __future__ import annotations

import re

_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t
char32_t class compl concept const consteval constexpr constinit const_cast continue co_await
co_return co_yield decltype default delete do double dynamic_cast else enum explicit export
extern false float for friend goto if inline int long mutable namespace new noexcept not not_eq
nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast struct switch template this
thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using
virtual void volatile wchar_t while xor xor_eq
_Alignas _Alignof _Atomic _BitInt _Bool _Complex _Decimal32 _Decimal64 _Decimal128 _Generic
_Imaginary _Noreturn _Static_assert _Thread_local
"""
KEYWORDS = frozenset(_KEYWORDS.split())
"""Keywords of C up to C23 and of C++ up to C++20."""

_MACROS = """
linux unix main NULL EOF BUFSIZ I NAN INFINITY HUGE_VAL RAND_MAX CLOCKS_PER_SEC
errno stdin stdout stderr assert complex imaginary noreturn offsetof setjmp
fpclassify isfinite isinf isnan isnormal signbit isgreater isgreaterequal isless islessequal
islessgreater isunordered va_arg va_copy va_end va_start
BIG_ENDIAN BYTE_ORDER CHAR_BIT CMPLX CMPLXF CMPLXL DECIMAL_DIG E2BIG EACCES EADDRINUSE
EADDRNOTAVAIL EADV EAFNOSUPPORT EAGAIN EALREADY EBADE EBADF EBADFD EBADMSG EBADR EBADRQC EBADSLT
EBFONT EBUSY ECANCELED ECHILD ECHRNG ECOMM ECONNABORTED ECONNREFUSED ECONNRESET EDEADLK EDEADLOCK
EDESTADDRREQ EDOM EDOTDOT EDQUOT EEXIST EFAULT EFBIG EHOSTDOWN EHOSTUNREACH EHWPOISON EIDRM EILSEQ
EINPROGRESS EINTR EINVAL EIO EISCONN EISDIR EISNAM EKEYEXPIRED EKEYREJECTED EKEYREVOKED EL2HLT
EL2NSYNC EL3HLT EL3RST ELIBACC ELIBBAD ELIBEXEC ELIBMAX ELIBSCN ELNRNG ELOOP EMEDIUMTYPE EMFILE
EMLINK EMSGSIZE EMULTIHOP ENAMETOOLONG ENAVAIL ENETDOWN ENETRESET ENETUNREACH ENFILE ENOANO
ENOBUFS ENOCSI ENODATA ENODEV ENOENT ENOEXEC ENOKEY ENOLCK ENOLINK ENOMEDIUM ENOMEM ENOMSG ENONET
ENOPKG ENOPROTOOPT ENOSPC ENOSR ENOSTR ENOSYS ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTNAM
ENOTRECOVERABLE ENOTSOCK ENOTSUP ENOTTY ENOTUNIQ ENXIO EOPNOTSUPP EOVERFLOW EOWNERDEAD EPERM
EPFNOSUPPORT EPIPE EPROTO EPROTONOSUPPORT EPROTOTYPE ERANGE EREMCHG EREMOTE EREMOTEIO ERESTART
ERFKILL EROFS ESHUTDOWN ESOCKTNOSUPPORT ESPIPE ESRCH ESRMNT ESTALE ESTRPIPE ETIME ETIMEDOUT
ETOOMANYREFS ETXTBSY EUCLEAN EUNATCH EUSERS EWOULDBLOCK EXDEV EXFULL HUGE_VALF HUGE_VALL
LITTLE_ENDIAN L_ctermid L_tmpnam NFDBITS PDP_ENDIAN PIPE_BUF P_tmpdir TIME_UTC WCONTINUED WEXITED
WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WNOHANG WNOWAIT WSTOPPED WSTOPSIG
WTERMSIG WUNTRACED alloca be16toh be32toh be64toh htobe16 htobe32 htobe64 htole16 htole32 htole64
le16toh le32toh le64toh math_errhandling
"""
MACROS = frozenset(_MACROS.split())
"""Macros of C's headers and of glibc, and those that compilers define in their own dialects."""

_TYPES = """
FILE DIR va_list fd_mask u_char u_int u_long u_short uint ulong ushort blkcnt_t blksize_t caddr_t
clock_t clockid_t daddr_t dev_t double_t float_t fpos_t fsblkcnt_t fsfilcnt_t fsid_t gid_t id_t
ino_t key_t locale_t loff_t max_align_t mode_t nlink_t off_t pid_t pthread_attr_t
pthread_barrier_t pthread_barrierattr_t pthread_cond_t pthread_condattr_t pthread_key_t
pthread_mutex_t pthread_mutexattr_t pthread_once_t pthread_rwlock_t pthread_rwlockattr_t
pthread_spinlock_t pthread_t ptrdiff_t quad_t sigset_t size_t ssize_t suseconds_t time_t timer_t
uid_t wchar_t wint_t mbstate_t wctype_t wctrans_t div_t ldiv_t lldiv_t imaxdiv_t sig_atomic_t
"""
TYPES = frozenset(_TYPES.split())
"""Types of C's headers and of POSIX."""

_HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign
stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath
threads time uchar wchar wctype
aio cpio dirent dlfcn fcntl fmtmsg fnmatch ftw glob grp iconv langinfo libgen monetary mqueue ndbm
netdb nl_types poll pthread pwd regex sched search semaphore spawn strings stropts syslog tar
termios ulimit unistd utime utmpx wordexp
alloca argp argz byteswap elf endian err error execinfo features getopt ifaddrs libintl link malloc
memory mntent obstack paths printf pty resolv shadow stab syscall sysexits syslimits ucontext
unwind values varargs wait
cpuid immintrin mm_malloc omp openacc quadmath x86intrin cuda
"""
HEADERS = frozenset(_HEADERS.split())
"""Headers of C up to C23, of POSIX, of C libraries and of compilers, without `.h`."""

_PATTERNS = re.compile(
    r"__\w*|u?int\w*_t|[A-Z]\w*_(MAX|MIN|C)|"
    r"(CLOCK|DBL|EXIT|FD|FLT|FP|LDBL|M|MATH|MAX|PTHREAD|SEEK|TIMER)_[A-Z0-9]\w*"
)


def has_meaning(word: str) -> bool:
    """Whether `word` is a keyword, or a type or macro of C's headers.

    >>> [word for word in ("A", "namespace", "uint8_t", "INT8_MAX", "errno") if has_meaning(word)]
    ['namespace', 'uint8_t', 'INT8_MAX', 'errno']
    """
    known = word in KEYWORDS or word in MACROS or word in TYPES
    return known or _PATTERNS.fullmatch(word) is not None
