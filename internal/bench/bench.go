// Package bench measures the time of training steps, prefill, decoding and scoring of a
// model, on rows of equal length.
//
// Steps are defined as in the Python programs that they are compared with: train is forward
// and backward pass, clipping and AdamW on all weights, with a target at every token of a
// row except the first; prefill processes a prompt and samples one token; decode generates
// one token for every row after a prompt; logprob scores every token.
//
// Every run also measures the speed of memory and of matrix products, and reports which part of them the
// steps use.
package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"vagen/internal/rng"
	"vagen/internal/usage"
	"vagen/policy"
	"vagen/policy/vlm"
)

// ErrConfig is wrapped by errors about a Config.
var ErrConfig = errors.New("bad benchmark")

// Mode selects the work that is timed.
type Mode string

// The modes.
const (
	Train   Mode = "train"
	Prefill Mode = "prefill"
	Decode  Mode = "decode"
	LogProb Mode = "logprob"
)

// Modes returns all modes.
func Modes() []Mode { return []Mode{Train, Prefill, Decode, LogProb} }

// Config describes a benchmark.
type Config struct {
	Mode  Mode
	Batch int // rows
	Seq   int // tokens per row; in prefill and decode, of its prompt
	Steps int // timed steps, after an untimed one for compilation; decode uses at least 16

	Temperature, TopP float64 // of decode, as in policy.Sampling
}

// Check returns an error that lists all invalid fields.
func (c Config) Check() error {
	var bad []error
	if !slices.Contains(Modes(), c.Mode) {
		bad = append(bad, fmt.Errorf("mode is %q, must be one of %q", c.Mode, Modes()))
	}
	for _, f := range []struct {
		name         string
		value, least int
	}{{"batch", c.Batch, 1}, {"seq", c.Seq, 2}, {"steps", c.Steps, 1}} {
		if f.value < f.least {
			bad = append(bad, fmt.Errorf("%s is %d, must be at least %d", f.name, f.value, f.least))
		}
	}
	if c.Mode != Decode && (c.Temperature != 0 || c.TopP != 0) {
		bad = append(bad, fmt.Errorf("temperature is %v and top_p %v, must be 0 in mode %s", c.Temperature, c.TopP, c.Mode))
	}
	if err := c.sampling(1).Check(); err != nil {
		bad = append(bad, err)
	}
	if len(bad) > 0 {
		return fmt.Errorf("bench: %w: %w", ErrConfig, errors.Join(bad...))
	}
	return nil
}

func (c Config) sampling(tokens int) policy.Sampling {
	return policy.Sampling{MaxTokens: tokens, Temperature: c.Temperature, TopP: c.TopP}
}

func (c Config) workload() vlm.Workload {
	w := vlm.Workload{Rows: c.Batch, Tokens: c.Seq}
	switch c.Mode {
	case Train:
		w.Train = true
	case LogProb:
		w.Score = true
	case Prefill:
		w.Generate = true
	case Decode:
		w.Generate = true
		w.Tokens += max(c.Steps, leastDecoded) + warmDecoded + decodedTogether
	}
	return w
}

// Result contains the measurements of a run.
type Result struct {
	System          string  `json:"system"`
	Model           string  `json:"model"` // architecture
	Backend         string  `json:"backend"`
	Mode            Mode    `json:"mode"`
	Batch           int     `json:"batch"`
	Seq             int     `json:"seq"`
	Steps           int     `json:"steps"`
	Temperature     float64 `json:"temperature"`
	TopP            float64 `json:"top_p"`
	MillisPerStep   float64 `json:"ms_per_step"` // median
	TokensPerSecond float64 `json:"tokens_per_second"`
	// mean CPU time of all threads, which other work on the machine affects less
	CPUPerStep     float64 `json:"cpu_ms_per_step"`
	FirstStep      float64 `json:"first_step_seconds"` // including compilation
	CompileSeconds float64 `json:"compile_seconds"`
	Devices        int     `json:"devices"`
	// part of the last training step in which devices exchanged gradients and weights
	ExchangeShare float64 `json:"exchange_share"`
	PeakRSS       int64   `json:"peak_rss_bytes"` // of the process so far; 0 if the system does not report it
	PlannedBytes  int64   `json:"planned_bytes"`  // according to the memory plan
	Efficiency
}

// Run runs a benchmark.
func Run(ctx context.Context, m *vlm.Model, c Config) (*Result, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	r := &runner{Config: c, model: m}
	plan, err := m.Plan(c.workload())
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	switch c.Mode {
	case Train:
		err = r.repeat(ctx, r.train)
	case LogProb:
		err = r.repeat(ctx, r.score)
	case Prefill:
		err = r.prefill(ctx)
	case Decode:
		err = r.decode(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	slices.Sort(r.times)
	median := r.times[len(r.times)/2]
	if len(r.times)%2 == 0 {
		median = (median + r.times[len(r.times)/2-1]) / 2
	}
	usedMemory, compiling := usage.PeakResident(), m.CompileTime() // without what the limits need
	efficiency, err := r.efficiency(ctx, median.Seconds())
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	tokens := c.Batch * c.Seq
	if c.Mode == Decode {
		tokens = c.Batch
	}
	return &Result{
		System: system(), Model: m.Family(), Backend: m.Backend(), Mode: c.Mode, Batch: c.Batch, Seq: c.Seq,
		Steps:         len(r.times),
		Temperature:   r.Temperature,
		TopP:          r.TopP,
		MillisPerStep: float64(median) / 1e6, TokensPerSecond: float64(tokens) / median.Seconds(),
		Devices: max(1, int(m.Gauges()["devices"])), ExchangeShare: m.Gauges()["exchange_share"],
		CPUPerStep: float64(r.cpu) / 1e6 / float64(len(r.times)), FirstStep: r.first.Seconds(),
		CompileSeconds: compiling.Seconds(), PeakRSS: usedMemory, PlannedBytes: plan.Peak(),
		Efficiency: efficiency,
	}, nil
}

// system returns the names and versions of this program and of GoMLX.
func system() string {
	name := "vagen"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/gomlx/gomlx" {
				name += " on gomlx " + strings.TrimPrefix(d.Version, "v")
			}
		}
	}
	return name
}

type runner struct {
	Config
	model *vlm.Model
	first time.Duration
	times []time.Duration
	cpu   time.Duration // of all timed steps
}

// repeat times f after one untimed call for compilation.
func (r *runner) repeat(ctx context.Context, f func(context.Context) error) error {
	var cpu time.Duration
	for i := range r.Steps + 1 {
		start := time.Now()
		if i == 1 {
			cpu = usage.CPUTime()
		}
		if err := f(ctx); err != nil {
			return err
		}
		if took := time.Since(start); i == 0 {
			r.first = took
		} else {
			r.times = append(r.times, took)
		}
	}
	r.cpu = usage.CPUTime() - cpu
	return nil
}

// rows returns random tokens, and a mask of all tokens except the first of each row.
func (r *runner) rows() (*policy.Rows, []bool) {
	rows := &policy.Rows{Offsets: []int{0}}
	want := make([]bool, r.Batch*r.Seq)
	draw := rng.New(1, rng.Init, 0)
	vocab := min(1000, r.model.Tokenizer().VocabSize())
	special := r.model.Tokenizer().Special()
	for i := range want {
		want[i] = i%r.Seq > 0
		id := int32(draw.IntN(vocab))
		for id == special.ImagePad || id == special.VideoPad {
			id = int32(draw.IntN(vocab))
		}
		rows.Tokens = append(rows.Tokens, id)
		if (i+1)%r.Seq == 0 {
			rows.Offsets = append(rows.Offsets, i+1)
		}
	}
	return rows, want
}

func (r *runner) train(ctx context.Context) error {
	rows, want := r.rows()
	b := &policy.Batch{Rows: *rows, Weight: make([]float32, len(want))}
	for i, w := range want {
		if w {
			b.Weight[i] = 1 / float32(r.Batch*(r.Seq-1))
		}
	}
	opt := policy.DefaultOptimizer()
	opt.MaxGradNorm = 0 // random weights may have large gradients
	stats, err := r.model.Update(ctx, b, policy.Objective{Imitate: true, Temperature: 1}, opt)
	if err == nil && stats.Skipped {
		err = fmt.Errorf("the step was skipped: gradient norm is %v, must be finite", stats.GradNorm)
	}
	return err
}

func (r *runner) score(ctx context.Context) error {
	rows, want := r.rows()
	_, err := r.model.Score(ctx, rows, want, policy.ScoreRequest{LogProbs: true}, 1)
	return err
}

func (r *runner) prefill(ctx context.Context) error {
	prompts, err := r.prompts()
	if err != nil {
		return err
	}
	return r.repeat(ctx, func(ctx context.Context) error {
		out, err := r.model.Generate(ctx, prompts, policy.Sampling{MaxTokens: 1})
		if err == nil {
			err = firstError(out)
		}
		forget(r.model, prompts)
		return err
	})
}

func forget(m *vlm.Model, prompts []policy.Prompt) {
	for _, p := range prompts {
		m.Forget(p.Conversation)
	}
}

func firstError(out []policy.Completion) error {
	for _, c := range out {
		if c.Err != nil {
			return c.Err
		}
	}
	return nil
}

// prompts returns one message of digits per row, which has Seq tokens with the chat
// template.
func (r *runner) prompts() ([]policy.Prompt, error) {
	out := make([]policy.Prompt, r.Batch)
	for i := range out {
		draw := rng.New(1, rng.Init, uint64(i))
		text := make([]byte, 0, 4*r.Seq)
		for range cap(text) {
			text = append(text, '0'+byte(draw.IntN(10)))
		}
		n, err := r.fit(string(text))
		if err != nil {
			return nil, err
		}
		out[i] = policy.Prompt{Conversation: uint64(i + 1), Messages: []policy.Message{{Role: policy.User, Text: string(
			text[:n])}}}
	}
	return out, nil
}

// fit returns how many digits of the text give a prompt of Seq tokens. The number of tokens
// does not decrease with the number of digits.
func (r *runner) fit(text string) (int, error) {
	answer := policy.Message{Role: policy.Assistant, Text: r.model.Opened()} // which completes a conversation
	var err error
	tokens := func(n int) int {
		pieces, _, e := r.model.Encode([]policy.Message{{Role: policy.User, Text: text[:n]}, answer})
		if e != nil {
			err = e
			return 0
		}
		return len(pieces[0].Tokens)
	}
	low, high := 0, len(text)
	for low < high {
		mid := (low + high) / 2
		if tokens(mid) < r.Seq {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if n := tokens(low); err == nil && n != r.Seq {
		err = fmt.Errorf("%w: seq is %d, but a prompt has %d tokens or more with the chat template", ErrConfig, r.Seq, n)
	}
	return low, err
}
