package vlm

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

// dumpHLO names the folder into which a child process of a test writes its programs.
const dumpHLO = "VAGEN_TEST_DUMP_HLO"

// Sizes of the model whose programs are inspected: several micro-batches, several chunks of
// tokens per micro-batch, and a vocabulary with a size that nothing else has.
const (
	inspectedMicro, inspectedHead, inspectedVocab = 128, 32, 336
)

// compiled is a program as XLA optimised it.
type compiled struct {
	name    string
	aliases int // outputs written over inputs
	copies  int // of whole arrays, outside of loops and fusions
	fusions int
	dots    int // matrix products, also as calls of a library
	text    string
}

var (
	moduleName = regexp.MustCompile(`^HloModule ([^,]+),`)
	aliasPair  = regexp.MustCompile(`\{\d*\}: \(\d+, \{\}, m`)
	fusionCall = regexp.MustCompile(`(?m)^  (ROOT )?%\S+ = .* fusion\(`)
	copyCall   = regexp.MustCompile(`(?m)^  (ROOT )?%\S+ = \S+ copy\(`)
	dotCall    = regexp.MustCompile(` dot\(`)
	twoAxes    = regexp.MustCompile(`f32\[(\d+),(\d+)\]`)
)

// inspect runs a tiny model in a process that writes its programs, and returns them.
func inspect(t *testing.T) []compiled {
	t.Helper()
	if d := devicetest.Best(t); d.PureGo() || d.Accelerator() {
		t.Skipf("the backend is %s, not XLA on a CPU", d.Name())
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildForInspection$", "-test.count=1")
	cmd.Env = append(os.Environ(), dumpHLO+"="+dir, devicetest.Unoptimized+" --xla_dump_to="+dir+" --xla_dump_hlo_as_text")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	files, err := filepath.Glob(filepath.Join(dir, "*after_optimizations.txt"))
	require.NoError(t, err)
	var all []compiled
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		text := string(raw)
		entry := text[max(0, strings.Index(text, "\nENTRY")):]
		head, _, _ := strings.Cut(text, "\n")
		all = append(all, compiled{
			name: moduleName.FindStringSubmatch(head)[1], aliases: len(aliasPair.FindAllString(head, -1)),
			copies: len(copyCall.FindAllString(entry, -1)), fusions: len(fusionCall.FindAllString(entry, -1)),
			dots: len(dotCall.FindAllString(text, -1)), text: text,
		})
	}
	return all
}

// TestChildForInspection trains, scores and generates once in a child of inspect.
func TestChildForInspection(t *testing.T) {
	if os.Getenv(dumpHLO) == "" {
		t.Skip("only in a child of another test")
	}
	dir := vlmtest.Folder(t, model.Llama, vlmtest.Object{"vocab_size": inspectedVocab})
	m := openTiny(t, dir, Options{Backend: backend.XLA, MicroTokens: inspectedMicro, HeadTokens: inspectedHead})
	rows := &policy.Rows{Offsets: []int{0}}
	for range 6 {
		for i := range 64 {
			rows.Tokens = append(rows.Tokens, int32(i%200))
		}
		rows.Offsets = append(rows.Offsets, len(rows.Tokens))
	}
	b := &policy.Batch{Rows: *rows, Weight: make([]float32, len(rows.Tokens))}
	want := make([]bool, len(rows.Tokens))
	for i := range want {
		if want[i] = i%64 > 0; want[i] {
			b.Weight[i] = 1e-3
		}
	}
	_, err := m.Score(t.Context(), rows, want, policy.ScoreRequest{LogProbs: true}, 1)
	require.NoError(t, err)
	_, err = m.Update(t.Context(), b, policy.Objective{Imitate: true, Temperature: 1}, policy.DefaultOptimizer())
	require.NoError(t, err)
	_, err = m.Generate(
		t.Context(), []policy.Prompt{{Conversation: 1, Messages: vlmtest.Say("go right")}}, policy.Sampling{MaxTokens: 4},
	)
	require.NoError(t, err)
}

// TestProgramsWriteInPlaceAndKeepLogitsSmall inspects what XLA made of a training step, scoring
// and decoding.
func TestProgramsWriteInPlaceAndKeepLogitsSmall(t *testing.T) {
	t.Parallel()
	const layers, layerWeights = 2, 6 // of tinyObject's Llama
	all := inspect(t)
	for _, p := range all {
		t.Logf("%-30.30s %2d outputs over inputs, %d copies, %2d fusions, %2d products", p.name, p.aliases, p.copies,
			p.fusions, p.dots)
	}
	// A first micro-batch returns gradients, later ones add to them.
	for name, gradients := range map[string]int{"layer_0_back": layerWeights, "head_back": 2, "embed_back": 1} {
		require.Equal(t, []int{0, gradients}, aliasesOf(all, name), name)
	}
	for _, p := range all {
		if p.name == "adam" { // weights and both moments
			require.Positive(t, p.aliases)
			require.Equal(t, p.aliases, outputs(p.text), p.text)
		}
		require.Zero(t, p.copies, "%s copies an array:\n%s", p.name, p.text)
	}
	require.Equal(t, []int{2 * layers}, aliasesOf(all, "step_"), "keys and values of each layer")

	heads := 0
	for _, p := range all {
		for _, axes := range twoAxes.FindAllStringSubmatch(p.text, -1) {
			a, err := strconv.Atoi(axes[1])
			require.NoError(t, err)
			b, err := strconv.Atoi(axes[2])
			require.NoError(t, err)
			if a == inspectedVocab {
				a, b = b, a
			}
			if b == inspectedVocab {
				heads++
				require.LessOrEqual(t, a, inspectedHead, "%s has logits of more tokens than HeadTokens: %s", p.name, axes[0])
			}
		}
	}
	require.Positive(t, heads)
}

// aliasesOf returns the sorted numbers of aliases of the programs whose names begin with prefix.
func aliasesOf(all []compiled, prefix string) (counts []int) {
	for _, p := range all {
		if strings.HasPrefix(p.name, prefix) {
			counts = append(counts, p.aliases)
		}
	}
	slices.Sort(counts)
	return counts
}

// outputs counts the arrays that a program returns.
func outputs(text string) int {
	head, _, _ := strings.Cut(text, "\n")
	_, results, _ := strings.Cut(head, ")->")
	return strings.Count(results, "f32[")
}
