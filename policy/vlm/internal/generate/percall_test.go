package generate_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/learn"
	"vagen/policy/vlm/internal/model"
	. "vagen/policy/vlm/internal/modeltest"
	. "vagen/policy/vlm/internal/vlmtest"
)

// xlaOptions are options of a model on XLA's CPU; without it the test is skipped. On
// accelerators a step in a loop may be rounded otherwise.
func xlaOptions(t *testing.T, o Options) Options {
	t.Helper()
	OnCPU(t)
	o.Backend, o.CacheTokens = devicetest.Backend(), 256 // few shapes, because XLA compiles each of them
	return o
}

// Many ways to end a response, and a model of one layer: what differs is around the layers, which take long to compile.
var (
	firstBytes = make([]int32, 30)
	letters    = strings.Split("abcdefghijklmnopqrstuvwxyz", "")
	shallow    = Object{"num_hidden_layers": 1}
)

func init() {
	for i := range firstBytes {
		firstBytes[i] = int32(i)
	}
}

// perCallCase is work in which responses end, and batches change, at tokens that are no
// multiples of those of a call.
type perCallCase struct {
	name     string
	family   model.Family
	changes  Object
	options  Options
	sampling policy.Sampling
	turns    [][]policy.Prompt
	check    func(t *testing.T, all []policy.Completion)
}

// turnsOf are prompts and further turns of their conversations, the last without the first
// of them. The longest responses of the further turns have up to most tokens; if those of the
// first turn have about as many, one size of programs is enough.
func turnsOf(prompts []policy.Prompt, n, most int) [][]policy.Prompt {
	turns := [][]policy.Prompt{prompts}
	for range n {
		next := nextTurn(turns[len(turns)-1])
		for i := range next {
			next[i].MaxTokens = most - 5*i%7
		}
		turns = append(turns, next)
	}
	turns[n] = turns[n][1:]
	return turns
}

// questions are prompts of one length.
func questions(n int, image bool) []policy.Prompt {
	out := make([]policy.Prompt, n)
	for i := range out {
		out[i] = policy.Prompt{Conversation: uint64(i), Messages: Say("go " + Words[i%3]), Seed: uint64(100 + i)}
		if image {
			out[i].Messages = Say("<image> "+Words[i%3], Drawing(uint64(i), 16, 16))
		}
	}
	return out
}

// withLimits sets the longest responses.
func withLimits(prompts []policy.Prompt, limit func(i int) int) []policy.Prompt {
	for i := range prompts {
		prompts[i].MaxTokens = limit(i)
	}
	return prompts
}

func stops(all []policy.Completion, s policy.Stop) (inside int) {
	for _, c := range all {
		if c.Stop == s && len(c.Tokens)%4 != 1 { // the first token is no program's of several
			inside++
		}
	}
	return inside
}

// perCallCases are of one family and one number of rows where the case allows, and run one after another: one of them
// loads what another has compiled.
func perCallCases() []perCallCase {
	plain := policy.Sampling{Temperature: 1, MaxTokens: 37}
	stopping := policy.Sampling{Temperature: 0.7, TopP: 0.9, TopK: 50, MaxTokens: 21, StopStrings: letters}
	thinking := policy.Sampling{Temperature: 1, MaxTokens: 37, Thinking: policy.Thinking{Tokens: 11, Close: "</t>"}}
	tagged := policy.Sampling{Temperature: 1, MaxTokens: 37, Thinking: policy.Thinking{Tokens: 9, Open: "t", Close: "t>"}}
	forced := func(t *testing.T, all []policy.Completion) {
		n := 0
		for _, c := range all {
			n += len(c.Forced)
		}
		require.Positive(t, n)
	}
	return []perCallCase{
		{
			name: "lengths", family: model.Qwen3VL, sampling: plain,
			turns: turnsOf(withLimits(questions(4, true), func(i int) int { return 9 + 7*i }), 3, 31),
		},
		{
			name: "end tokens", family: model.Qwen2, changes: Object{"eos_token_id": firstBytes, "num_hidden_layers": 1},
			sampling: plain,
			turns:    turnsOf(questions(8, false), 2, 31),
			check:    func(t *testing.T, all []policy.Completion) { require.Positive(t, stops(all, policy.StopEnd)) },
		},
		{name: "stop strings", family: model.Qwen2, changes: shallow, sampling: stopping,
			turns: turnsOf(questions(8, false), 2, 21),
			check: func(t *testing.T, all []policy.Completion) { require.Positive(t, stops(all, policy.StopString)) }},
		{
			name: "thinking", family: model.Qwen2, changes: shallow, sampling: thinking,
			turns: turnsOf(questions(8, false), 1, 31),
			check: forced,
		},
		{
			name: "greedy, bfloat16", family: model.Qwen2, changes: shallow, options: Options{BFloat16: true},
			sampling: policy.Sampling{MaxTokens: 21}, turns: turnsOf(questions(2, false), 1, 29),
		},
		{
			name: "adapters", family: model.Qwen2, options: Options{LoRA: Adapters()}, sampling: plain,
			turns: turnsOf(questions(2, false), 1, 31),
		},
		{
			name: "more rows than kernels support", family: model.Qwen2, changes: shallow,
			sampling: policy.Sampling{Temperature: 1, MaxTokens: 13}, turns: turnsOf(questions(20, false), 1, 13),
		},
		{
			name:     "regrouped",
			family:   model.Qwen2,
			changes:  shallow,
			options:  Options{MaxRows: 8},
			sampling: policy.Sampling{Temperature: 1, MaxTokens: 61},
			turns: turnsOf(withLimits(questions(12, false), func(i int) int {
				if i == 3 || i > 8 {
					return 50
				}
				return 3
			}), 1, 31),
		},
		{
			name: "thinking between tags", family: model.Qwen2, changes: shallow, sampling: tagged,
			turns: turnsOf(questions(8, false), 1, 31), check: forced,
		},
	}
}

// written is what a model writes in all turns, and the tokens in the order in which they
// were reported.
func (c *perCallCase) written(t *testing.T, dir string, perCall int) (
	all []policy.Completion, order []string, m *Model,
) {
	o := c.options
	o.TokensPerCall = perCall
	m = Open(t, dir, xlaOptions(t, o))
	for _, prompts := range c.turns {
		all = append(all, watched(t, m, prompts, c.sampling, &order)...)
	}
	return all, order, m
}

// watched generates, and adds the tokens to order as they are reported.
func watched(t *testing.T, m *Model, p []policy.Prompt, s policy.Sampling, order *[]string) []policy.Completion {
	t.Helper()
	out, err := m.Gen.Stream(t.Context(), p, s, func(prompt int, token int32) {
		*order = append(*order, fmt.Sprint(prompt, " ", token))
	})
	require.NoError(t, err)
	for _, x := range out {
		require.NoError(t, x.Err)
	}
	return out
}

// ran reports whether a program whose name starts so has been executed.
func ran(m *Model, prefix string) bool {
	for name, p := range m.Net.Programs {
		if strings.HasPrefix(name, prefix) && p.Executables() > 0 {
			return true
		}
	}
	return false
}

// Several tokens in one program are those of as many programs, with their log-probs, bit for
// bit, also in later turns: where responses end between two calls, by a token, a string or
// their length, where tokens are forced, where rows move to another batch.
func TestTokensPerCallChangeNothing(t *testing.T) {
	t.Parallel()
	for _, c := range perCallCases() {
		t.Run(c.name, func(t *testing.T) {
			dir := Folder(t, c.family, c.changes)
			if c.options.LoRA != nil { // adapters that change something, trained in pure Go
				m := Open(t, dir, Options{LoRA: c.options.LoRA})
				m.Train(t, 1)
				c.options = Options{Adapter: filepath.Join(m.Saved(t), learn.ActorFolder)}
			}
			want, order, one := c.written(t, dir, 1)
			require.True(t, ran(one, "step "))
			require.False(t, ran(one, "8 steps "))
			require.Equal(t, c.name == "regrouped", Regrouped(one.Net))
			if c.check != nil {
				c.check(t, want)
			}
			perCall := []int{8}
			if c.name == "lengths" {
				perCall = []int{4, 8} // more would compile for long
			}
			for _, n := range perCall {
				got, gotOrder, m := c.written(t, dir, n)
				require.True(t, ran(m, fmt.Sprint(n, " steps ")))
				require.Equal(t, want, got, "%d tokens per call", n)
				require.Equal(t, order, gotOrder, "%d tokens per call", n)
				if c.name == "lengths" || c.options.Adapter != "" {
					require.False(t, ran(m, "step "), "one kind of executable is enough")
				}
			}
		})
	}
}

// A call that is cancelled between programs leaves nothing behind, and other conversations
// continue. The test compiles programs that TestTokensPerCallChangeNothing, which runs later, loads.
func TestCallsOfSeveralTokensCanBeCancelled(t *testing.T) {
	dir := Folder(t, model.Qwen2, shallow)
	o := policy.Sampling{Temperature: 1, MaxTokens: 33}
	prompts := questions(8, false)
	one := Open(t, dir, xlaOptions(t, Options{TokensPerCall: 1}))
	m := Open(t, dir, xlaOptions(t, Options{TokensPerCall: 8}))
	before, _ := m.Dev.Live()
	for looks := range 5 {
		_, err := m.Generate(Countdown(t.Context(), looks), prompts, o)
		require.Error(t, err, "after %d looks", looks)
		require.Empty(t, m.Gen.Chats)
		after, _ := m.Dev.Live()
		require.Equal(t, before, after)
	}
	require.Equal(t, Ask(t, one, o, prompts), Ask(t, m, o, prompts))
}

// stepsDump is the folder of a model, in the process that has XLA write its programs.
const stepsDump = "VAGEN_TEST_STEPS_DUMP"

// XLA makes one loop with a known number of iterations of a program for several tokens, and
// updates the keys and values in place, with kernels and without (adapters have none): no
// instruction copies an array of the cache. XLA writes the optimised programs only if it is
// asked to when its plugin is loaded, so in another process.
func TestProgramsOfSeveralTokensCopyNoCache(t *testing.T) {
	t.Parallel()
	o := xlaOptions(t, Options{TokensPerCall: 8})
	if dir := os.Getenv(stepsDump); dir != "" {
		for _, l := range []*LoRA{nil, Adapters()} {
			o.LoRA = l
			Ask(t, Open(t, dir, o), policy.Sampling{Temperature: 1, MaxTokens: 33}, questions(2, false))
		}
		return
	}
	dir, dump := Folder(t, model.Qwen2, nil), t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), stepsDump+"="+dir,
		devicetest.Unoptimized+" --xla_dump_to="+dump+" --xla_dump_hlo_as_text")
	says, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", says)
	files, err := filepath.Glob(filepath.Join(dump, "*8_steps*after_optimizations.txt"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	cache := `f32\[2,2,(256|32),8\]` // rows, heads, slots of the prefix or the recent segment
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		loops := regexp.MustCompile(`(?m)^.* while\(.*$`).FindAllString(string(text), -1)
		require.Len(t, loops, 1)
		require.Contains(t, strings.ReplaceAll(loops[0], `"`, ""), "known_trip_count:{n:8}")
		require.Len(t, regexp.MustCompile(cache).FindAllString(loops[0], -1), 2*4,
			"keys and values of two layers, long and recent")
		require.Empty(t, regexp.MustCompile(`(?m)^.* = `+cache+`\S* copy\(.*$`).FindAllString(string(text), -1))
	}
}
