//go:build mpi

package mpi

/*
#include <mpi.h>

// Handles are pointers in Open MPI and integers in MPICH, and some constants are macros with casts: cgo sees
// functions with plain types only.
static int v_start(int want, int *level) { return MPI_Init_thread(NULL, NULL, want, level); }
static int v_return(void) { return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); }
static int v_rank(int *r) { return MPI_Comm_rank(MPI_COMM_WORLD, r); }
static int v_size(int *n) { return MPI_Comm_size(MPI_COMM_WORLD, n); }
static int v_isend(void *p, int n, int to, int tag, MPI_Request *r) {
	return MPI_Isend(p, n, MPI_BYTE, to, tag, MPI_COMM_WORLD, r);
}
static int v_irecv(void *p, int n, int from, int tag, MPI_Request *r) {
	return MPI_Irecv(p, n, MPI_BYTE, from, tag, MPI_COMM_WORLD, r);
}
static int v_test(MPI_Request *r, int *done, int *n) {
	MPI_Status s;
	int rc = MPI_Test(r, done, &s);
	if (rc == MPI_SUCCESS && *done) MPI_Get_count(&s, MPI_BYTE, n);
	return rc;
}
static const char *v_text(int rc, char *b) { int n; MPI_Error_string(rc, b, &n); return b; }
static const char *v_library(char *b) { int n; MPI_Get_library_version(b, &n); return b; }
enum {
	v_serialized = MPI_THREAD_SERIALIZED,
	v_textsize = MPI_MAX_ERROR_STRING + 1,
	v_librarysize = MPI_MAX_LIBRARY_VERSION_STRING + 1
};
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// world is MPI_COMM_WORLD.
type world struct {
	mu         sync.Mutex // held during every call into MPI
	rank, size int
	ended      bool
	given      []*request // that were given up, and whose memory MPI may still use
}

// check makes an error of a result of MPI.
func check(what string, rc C.int) error {
	if rc == C.MPI_SUCCESS {
		return nil
	}
	var b [C.v_textsize]C.char
	return fmt.Errorf("%s: %s", what, C.GoString(C.v_text(rc, &b[0])))
}

func initialise() (World, error) {
	var level, rank, size C.int
	if err := check("MPI_Init_thread", C.v_start(C.v_serialized, &level)); err != nil {
		return nil, err
	}
	if level < C.v_serialized {
		return nil, fmt.Errorf("%s supports threads at level %d, must be at least MPI_THREAD_SERIALIZED (%d)",
			libraryVersion(), level, C.v_serialized)
	}
	err := errors.Join(
		check("MPI_Comm_set_errhandler", C.v_return()), check("MPI_Comm_rank", C.v_rank(&rank)),
		check("MPI_Comm_size", C.v_size(&size)),
	)
	return &world{rank: int(rank), size: int(size)}, err
}

// libraryVersion names the library and its version.
func libraryVersion() string {
	var b [C.v_librarysize]C.char
	first, _, _ := strings.Cut(C.GoString(C.v_library(&b[0])), "\n")
	return strings.Join(strings.Fields(first), " ")
}

func (w *world) Rank() int { return w.rank }
func (w *world) Size() int { return w.size }

func (w *world) Finalize() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	return check("MPI_Finalize", C.MPI_Finalize())
}

// request is a transfer. Its memory is pinned until it is complete.
type request struct {
	w    *world
	what string
	mpi  *C.MPI_Request // in memory of its own, as C may see no pointers of Go
	pin  runtime.Pinner
}

func (w *world) Send(p []byte, to, tag int) (Request, error) {
	return w.start("MPI_Isend", p, func(at unsafe.Pointer, r *C.MPI_Request) C.int {
		return C.v_isend(at, C.int(len(p)), C.int(to), C.int(tag), r)
	})
}

func (w *world) Receive(p []byte, from, tag int) (Request, error) {
	return w.start("MPI_Irecv", p, func(at unsafe.Pointer, r *C.MPI_Request) C.int {
		return C.v_irecv(at, C.int(len(p)), C.int(from), C.int(tag), r)
	})
}

var errEnded = errors.New("mpi: called after MPI_Finalize")

func (w *world) start(what string, p []byte, call func(unsafe.Pointer, *C.MPI_Request) C.int) (Request, error) {
	r := &request{w: w, what: what, mpi: new(C.MPI_Request)}
	if len(p) > 0 {
		r.pin.Pin(unsafe.SliceData(p))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	err := errEnded
	if !w.ended {
		err = check(what, call(unsafe.Pointer(unsafe.SliceData(p)), r.mpi))
	}
	if err != nil {
		r.pin.Unpin()
		return nil, err
	}
	return r, nil
}

func (r *request) Test() (n int, done bool, err error) {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	err = errEnded
	var complete, count C.int
	if !r.w.ended {
		err = check(r.what, C.v_test(r.mpi, &complete, &count))
	}
	if err != nil {
		// MPI may still have the memory, and a request that is collected with pins ends the process.
		r.w.given = append(r.w.given, r)
		return 0, false, err
	}
	if complete != 0 {
		r.pin.Unpin()
	}
	return int(count), complete != 0, nil
}

func (r *request) Cancel() {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	// MPI may not cancel a message whose transfer has started, so the memory stays pinned.
	if !r.w.ended {
		C.MPI_Cancel(r.mpi)
	}
	r.w.given = append(r.w.given, r)
}
