package view

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// maxListeners limits the pages that listen to events at a time.
	maxListeners = 32
	// aliveEvery is how often something is sent when nothing changes, so that a closed
	// connection is noticed.
	aliveEvery = 15 * time.Second
)

// pollEvery is how often the files of runs are looked at for a listener. Tests look more often.
var pollEvery = time.Second

// seen is the state of a run that a listener has been sent.
type seen struct{ lines, generation, changes int }

// events sends an event for each run that was written, until the client leaves.
func (h *handler) events(w http.ResponseWriter, req *http.Request) {
	select {
	case h.listeners <- struct{}{}:
		defer func() { <-h.listeners }()
	default:
		refuse(w, failure{http.StatusServiceUnavailable, errors.New("too many open event streams")})
		return
	}
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Time{}) // events have no end
	w.Header().Set("Content-Type", "text/event-stream")
	if req.Method == http.MethodHead {
		return
	}
	last := make([]seen, len(h.runs))
	for i, r := range h.runs {
		last[i] = r.seen()
	}
	if _, err := fmt.Fprint(w, "retry: 3000\n\n"); err != nil || out.Flush() != nil {
		return
	}
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	sent := time.Now()
	for {
		select {
		case <-req.Context().Done():
			return
		case <-poll.C:
		}
		text := ""
		for i, r := range h.runs {
			now := r.seen()
			if now.lines != last[i].lines || now.generation != last[i].generation {
				text += fmt.Sprintf("event: metrics\ndata: {\"run\":%q,\"lines\":%d}\n\n", r.id, now.lines)
			}
			if now.changes != last[i].changes {
				text += fmt.Sprintf("event: episodes\ndata: {\"run\":%q}\n\n", r.id)
			}
			last[i] = now
		}
		if text == "" {
			if time.Since(sent) < aliveEvery {
				continue
			}
			text = ": alive\n\n"
		}
		sent = time.Now()
		if _, err := fmt.Fprint(w, text); err != nil || out.Flush() != nil {
			return
		}
	}
}

// seen reads what was written to the run's folder.
func (r *run) seen() seen {
	root, done, err := r.open()
	if err != nil {
		return seen{}
	}
	defer done()
	r.refresh(root)
	return seen{len(r.metrics.lines), r.metrics.generation, r.episodes.changes}
}
