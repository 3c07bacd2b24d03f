// Package mpitest is an MPI of one process, for tests of what ranks say to each other.
package mpitest

import (
	"errors"
	"slices"
	"sync"

	"vagen/policy/vlm/internal/mpi"
)

// hub matches sends and receives as MPI does: in order, by sender, receiver and tag. A send is complete when it is
// received, as MPI may do it.
type hub struct {
	mu   sync.Mutex
	open map[route][2][]*request // by route: sends and receives that wait
	cut  map[int]bool
}

type route struct{ from, to, tag int }

// World is one of the ranks.
type World struct {
	*hub
	rank, size int
}

var _ mpi.World = (*World)(nil)

// Worlds are n ranks.
func Worlds(n int) []*World {
	h := &hub{open: map[route][2][]*request{}, cut: map[int]bool{}}
	out := make([]*World, n)
	for rank := range out {
		out[rank] = &World{hub: h, rank: rank, size: n}
	}
	return out
}

// Cut loses everything that this rank sends from now on and that others send to it.
func (w *World) Cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[w.rank] = true
}

// Rank implements mpi.World.
func (w *World) Rank() int { return w.rank }

// Size implements mpi.World.
func (w *World) Size() int { return w.size }

// Finalize implements mpi.World. Unlike MPI's it does not wait for the other ranks.
func (w *World) Finalize() error { return nil }

// Send implements mpi.World.
func (w *World) Send(p []byte, to, tag int) (mpi.Request, error) {
	return w.start(&request{hub: w.hub, route: route{w.rank, to, tag}, p: p}, 0), nil
}

// Receive implements mpi.World.
func (w *World) Receive(p []byte, from, tag int) (mpi.Request, error) {
	return w.start(&request{hub: w.hub, route: route{from, w.rank, tag}, p: p}, 1), nil
}

// request is a transfer; its fields are the hub's.
type request struct {
	*hub
	route
	p    []byte
	n    int
	done bool
	err  error
}

func (h *hub) start(r *request, side int) *request {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cut[r.from] || h.cut[r.to] {
		return r
	}
	both := h.open[r.route]
	both[side] = append(both[side], r)
	if len(both[0]) > 0 && len(both[1]) > 0 {
		send, receive := both[0][0], both[1][0]
		both[0], both[1] = both[0][1:], both[1][1:]
		if len(send.p) > len(receive.p) {
			receive.err = errors.New("MPI_ERR_TRUNCATE")
		}
		receive.n = copy(receive.p, send.p)
		send.done, receive.done = true, true
	}
	h.open[r.route] = both
	return r
}

// Test implements mpi.Request.
func (r *request) Test() (n int, done bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n, r.done, r.err
}

// Cancel implements mpi.Request.
func (r *request) Cancel() {
	r.mu.Lock()
	defer r.mu.Unlock()
	both := r.open[r.route]
	for side := range both {
		both[side] = slices.DeleteFunc(slices.Clone(both[side]), func(o *request) bool { return o == r })
	}
	r.open[r.route] = both
}
