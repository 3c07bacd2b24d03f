package queue

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"vagen/policy"
	"vagen/rollout"
	"vagen/rollout/store"
)

// protocol is the version of the messages. Trainer and workers must have the same.
const protocol = "3"

// Limits on what others send.
const (
	maxTask     = 1 << 20 // bytes of a task
	maxSettings = 64 << 20
	maxResult   = 1 << 28 // bytes of a result in the object store
	maxGrouped  = 128     // results in a message
	maxText     = 2000    // characters of a failure
	maxAttempts = 100     // of an episode by run.retry
	maxReport   = 4096    // bytes of a report
)

// names of a queue on its server: streams, the bucket of settings, and subjects.
type names struct {
	prefix, tasks, results, settings string

	subject  string
	presence string // on which workers report that they run, and why they end
}

func namesOf(queue string) names {
	prefix, subject := "VAGEN_"+queue+"_", "vagen."+queue+"."
	return names{prefix, prefix + "TASKS", prefix + "RESULTS", prefix + "SETTINGS", subject, subject + "worker"}
}

func (n names) bucket(batch string) string { return n.prefix + batch }
func (n names) taskOf(batch, deal string) string {
	return n.subject + "task." + batch + "." + deal
}
func (n names) resultOf(batch string) string { return n.subject + "result." + batch }

// troubleOf is the subject on which workers report that they cannot deliver results.
func (n names) troubleOf(batch string) string { return n.subject + "trouble." + batch }

// Metadata of the streams, and headers of messages.
const (
	runKey      = "vagen.run"
	protocolKey = "vagen.protocol"
	// consumerKey is the name of the consumer from which workers take tasks. It is another one for
	// each stream, whose messages are numbered from 1: what a worker says late of a task must not
	// count for a task of the next stream.
	consumerKey = "vagen.consumer"

	tasksHeader  = "Vagen-Tasks"  // numbers of the tasks with their attempts, one for each row: "3/0,7/1"
	objectHeader = "Vagen-Object" // name of the object with the body
	faultHeader  = "Vagen-Fault"  // kind of a failure; the body is its text
	reportHeader = "Vagen-Report" // reports of the episodes: a JSON list of texts, one for each row; "" without
)

// The kinds of failures.
const (
	faultFailed = "failed" // the worker could not play the episode
	faultDied   = "died"   // workers that played it ended
)

// limits are the settings of a player that workers need, beside its harness.
type limits struct {
	Sampling       policy.Sampling
	MaxTurns       int
	Budget         rollout.Budget
	EnvTimeout     time.Duration
	EpisodeTimeout time.Duration
	EpisodeMean    []string
	Retry          rollout.Retry
}

func limitsOf(p *rollout.Player) limits {
	return limits{p.Sampling, p.MaxTurns, p.Budget, p.EnvTimeout, p.EpisodeTimeout, p.EpisodeMean, p.Retry}
}

func (l *limits) apply(p *rollout.Player) {
	p.Sampling, p.MaxTurns, p.Budget, p.EnvTimeout, p.EpisodeTimeout = l.Sampling, l.MaxTurns, l.Budget, l.EnvTimeout,
		l.EpisodeTimeout
	p.EpisodeMean, p.Retry = l.EpisodeMean, l.Retry
}

// settings are what the tasks of a batch have in common.
type settings struct {
	Batch
	Seed   uint64
	Lease  time.Duration
	Tries  int
	Limits limits
}

// taskOf is an episode to play, encoded for the trainer and decoded for a worker.
type taskOf[E json.RawMessage | episode] struct {
	Batch   string
	Deal    string // names the settings
	Number  int    // in the batch
	Attempt int
	Episode E
}

type task = taskOf[episode]

// episode is a rollout.Episode whose options keep their types.
type episode struct {
	rollout.Episode
	Options string
}

func newEpisode(e rollout.Episode) (episode, error) {
	options, err := store.EncodeOptions(e.Config)
	e.Config = nil
	return episode{e, options}, err
}

func (e *episode) decode() (rollout.Episode, error) {
	out := e.Episode
	var err error
	out.Config, err = store.DecodeOptions(e.Options)
	return out, err
}

// batchName identifies a batch: everything that its results depend on, except the policy,
// which the tag stands for.
func batchName(s *settings, episodes []json.RawMessage) (string, error) {
	raw, err := json.Marshal(struct {
		Protocol, Run, Tag string
		Seed               uint64
		Limits             limits
		Setup              []byte
	}{protocol, s.Run, s.Tag, s.Seed, s.Limits, s.Setup})
	if err != nil {
		return "", fmt.Errorf("queue: %w", err)
	}
	sum := sha256.New()
	sum.Write(raw)
	for _, e := range episodes {
		sum.Write(e)
	}
	return hex.EncodeToString(sum.Sum(nil)[:12]), nil
}

// nonce returns a text that no other process has.
func nonce() string { return rand.Text()[:12] }

// place is a task with the attempt.
type place struct{ number, attempt int }

func writePlaces(places []place) string {
	var b strings.Builder
	for i, p := range places {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%d/%d", p.number, p.attempt)
	}
	return b.String()
}

// readPlaces reads the header of a result for a batch of n tasks.
func readPlaces(text string, n int) ([]place, error) {
	parts := strings.SplitN(text, ",", maxGrouped+1)
	if text == "" || len(parts) > maxGrouped {
		return nil, fmt.Errorf("the header %s has no tasks, or more than %d", tasksHeader, maxGrouped)
	}
	var out []place
	for _, part := range parts {
		number, attempt, ok := strings.Cut(part, "/")
		i, err1 := strconv.Atoi(number)
		k, err2 := strconv.Atoi(attempt)
		if !ok || err1 != nil || err2 != nil || i < 0 || i >= n || k < 0 {
			return nil, fmt.Errorf("the header %s is not a list of the %d tasks", tasksHeader, n)
		}
		out = append(out, place{i, k})
	}
	return out, nil
}

func writeReports(group []outcome) (string, error) {
	out, any := make([]string, len(group)), false
	for i, o := range group {
		out[i], any = string(o.report), any || len(o.report) > 0
	}
	if !any {
		return "", nil
	}
	raw, err := json.Marshal(out)
	return string(raw), err
}

// readReports reads the header of a result with n episodes.
func readReports(text string, n int) ([]string, error) {
	if text == "" {
		return make([]string, n), nil
	}
	var out []string
	if err := json.Unmarshal([]byte(text), &out); err != nil || len(out) != n {
		return nil, fmt.Errorf("the header %s is not a list of %d texts", reportHeader, n)
	}
	for i, r := range out {
		if len(r) > maxReport {
			return nil, fmt.Errorf("report %d has %d bytes, at most %d are allowed", i, len(r), maxReport)
		}
	}
	return out, nil
}
