// Package gate lets the models of several worker processes share the limits of an API, which the
// process that deals the episodes keeps.
//
//	Keeper   keeps chat.Limits, and answers what workers ask
//	Client   is the chat.Gate of a worker
//
// A request that was admitted to a worker which is not heard of for the time of a lease is given
// up: it counts at its estimate, because it may have been sent.
package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"vagen/policy/chat"
)

// message is what a worker sends. One field besides ID is set.
type message struct {
	ID     string           `json:",omitempty"` // of the request
	Admit  *chat.Estimate   `json:",omitempty"`
	Settle *chat.Settlement `json:",omitempty"`
	Notice *chat.Notice     `json:",omitempty"`
	Alive  []string         `json:",omitempty"` // requests that the worker waits for or has sent
	Abort  string           `json:",omitempty"` // an error that concerns all workers
}

// Keeper keeps the limits.
type Keeper struct {
	limits *chat.Limits
	lease  time.Duration
	fail   func(error)
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	requests map[string]*request // by the worker's id
	count    int                 // of requests so far
}

// request is one that waits or is admitted.
type request struct {
	own            string // id among the limits
	admitted, over bool
	cancel         context.CancelFunc
	answer         func([]byte)
	heard          time.Time
}

// maxText is the longest text of an error.
const maxText = 2000

// Keep returns a Keeper. fail is called with errors that concern all workers: the budget is used
// up, or a worker reports one.
func Keep(limits *chat.Limits, lease time.Duration, fail func(error)) *Keeper {
	k := &Keeper{limits: limits, lease: lease, fail: fail, requests: map[string]*request{}}
	k.ctx, k.stop = context.WithCancel(context.Background())
	k.wg.Go(k.expire)
	return k
}

// Close ends all waiting. What was admitted and not settled is given up.
func (k *Keeper) Close() {
	k.stop()
	k.wg.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.requests {
		k.limits.Abandon(r.own)
	}
	clear(k.requests)
}

// Hear is queue.Options.Hear. What cannot be read is ignored.
func (k *Keeper) Hear(raw []byte, answer func([]byte)) {
	var m message
	if json.Unmarshal(raw, &m) != nil {
		return
	}
	switch {
	case m.Admit != nil:
		k.admit(m.ID, *m.Admit, answer)
	case m.Settle != nil:
		k.settle(m.ID, *m.Settle)
	case m.Notice != nil:
		k.limits.Report(*m.Notice)
	case m.Abort != "":
		k.fail(fmt.Errorf("a worker reports: %s", m.Abort[:min(len(m.Abort), maxText)]))
	default:
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, id := range m.Alive {
			if r := k.requests[id]; r != nil {
				r.heard = time.Now()
			}
		}
	}
}

var admittedAnswer = []byte("admitted")

// admit lets a request wait for the limits, once.
func (k *Keeper) admit(id string, e chat.Estimate, answer func([]byte)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ctx.Err() != nil {
		return
	}
	if r := k.requests[id]; r != nil {
		if r.heard, r.answer = time.Now(), answer; r.admitted {
			answer(admittedAnswer)
		}
		return
	}
	ctx, cancel := context.WithCancel(k.ctx)
	k.count++
	r := &request{own: strconv.Itoa(k.count), cancel: cancel, answer: answer, heard: time.Now()}
	k.requests[id] = r
	k.wg.Go(func() {
		defer cancel()
		err := k.limits.Admit(ctx, r.own, e)
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case err == nil && r.over:
			k.limits.Settle(r.own, chat.Settlement{})
		case err == nil:
			r.admitted = true
			r.answer(admittedAnswer)
		case k.requests[id] == r:
			delete(k.requests, id)
			if errors.Is(err, chat.ErrBudget) {
				k.fail(err)
			}
		}
	})
}

func (k *Keeper) settle(id string, s chat.Settlement) {
	k.mu.Lock()
	defer k.mu.Unlock()
	r := k.requests[id]
	if r == nil {
		return
	}
	r.over = true
	delete(k.requests, id)
	if r.admitted {
		k.limits.Settle(r.own, s)
	} else {
		r.cancel()
	}
}

// expire gives up requests that are not heard of.
func (k *Keeper) expire() {
	t := time.NewTicker(k.lease / 3)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-k.ctx.Done():
			return
		}
		k.mu.Lock()
		for id, r := range k.requests {
			if time.Since(r.heard) < k.lease {
				continue
			}
			r.over = true
			delete(k.requests, id)
			if r.admitted {
				k.limits.Abandon(r.own)
			} else {
				r.cancel()
			}
		}
		k.mu.Unlock()
	}
}

// Client is the gate of a worker.
type Client struct {
	ask  func(ctx context.Context, question []byte) ([]byte, error)
	tell func(message []byte)
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu   sync.Mutex
	open map[string]bool
}

var _ chat.Gate = (*Client)(nil)

// Dial returns a Client that asks and tells a Keeper with the same lease.
func Dial(lease time.Duration, ask func(ctx context.Context, question []byte) ([]byte, error), tell func(message []byte)) *Client {
	c := &Client{ask: ask, tell: tell, open: map[string]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.wg.Go(func() {
		t := time.NewTicker(lease / 4)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				c.mu.Lock()
				ids := slices.Collect(maps.Keys(c.open))
				c.mu.Unlock()
				const most = 1000 // so that a message stays small
				for part := range slices.Chunk(ids, most) {
					c.send(message{Alive: part})
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return c
}

// Close ends the reports that requests are alive.
func (c *Client) Close() {
	c.stop()
	c.wg.Wait()
}

func (c *Client) send(m message) {
	if raw, err := json.Marshal(&m); err == nil { // texts and numbers, which cannot fail
		c.tell(raw)
	}
}

// Admit implements chat.Gate.
func (c *Client) Admit(ctx context.Context, id string, e chat.Estimate) error {
	raw, err := json.Marshal(&message{ID: id, Admit: &e})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.open[id] = true
	c.mu.Unlock()
	answer, err := c.ask(ctx, raw)
	if err == nil && string(answer) != string(admittedAnswer) {
		err = errors.New("gate: the answer is none of this protocol")
	}
	if err != nil {
		c.Settle(id, chat.Settlement{})
	}
	return err
}

// Settle implements chat.Gate.
func (c *Client) Settle(id string, s chat.Settlement) {
	c.mu.Lock()
	delete(c.open, id)
	c.mu.Unlock()
	c.send(message{ID: id, Settle: &s})
}

// Report implements chat.Gate.
func (c *Client) Report(n chat.Notice) { c.send(message{Notice: &n}) }

// Abort reports an error that concerns all workers.
func (c *Client) Abort(err error) {
	text := err.Error()
	c.send(message{Abort: text[:min(len(text), maxText)]})
}
