package vlm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/internal/safetensors"
	"vagen/internal/testkit"
	"vagen/policy"
	"vagen/policy/vlm/internal/backend"
	"vagen/policy/vlm/internal/devicetest"
	"vagen/policy/vlm/internal/fused"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/vlmtest"
)

func TestOpenListsAllBadOptions(t *testing.T) {
	_, err := Open(t.Context(), t.TempDir(), Options{Recompute: "some", Critic: "maybe", MicroTokens: -1, HeadTokens: -2,
		MaxRows:     -3,
		CacheTokens: -4, CriticPath: "there"})
	require.ErrorIs(t, err, ErrOption)
	for _, part := range []string{
		`Recompute is "some", must be one of`, `Critic is "maybe", must be one of`, "MicroTokens is -1", "HeadTokens is -2",
		"MaxRows is -3",
		"CacheTokens is -4, must not be negative", `CriticPath is "there", but Critic is "maybe"`,
	} {
		require.ErrorContains(t, err, part)
	}
}

func TestOpenSaysWhatIsWrongWithAFolder(t *testing.T) {
	good := vlmtest.Folder(t, model.Qwen25VL, nil)
	file := filepath.Join(good, "model.safetensors")
	require.FileExists(t, file)
	change := func(changes vlmtest.Object) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			raw, err := json.Marshal(vlmtest.Config(t, model.Qwen25VL, changes))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o644))
		}
	}
	remove := func(name string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { require.NoError(t, os.Remove(filepath.Join(dir, name))) }
	}
	edit := func(f func(*vlmtest.File)) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) { vlmtest.Edit(t, filepath.Join(dir, "model.safetensors"), f) }
	}
	for name, c := range map[string]struct {
		harm   func(t *testing.T, dir string)
		o      Options
		is     error
		wanted []string
	}{
		"no config": {remove("config.json"), Options{}, os.ErrNotExist, []string{"config.json"}},
		"config is not JSON": {func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte("{"), 0o644))
		}, Options{}, nil, nil},
		"unknown family": {change(vlmtest.Object{"model_type": "bert"}), Options{}, nil,
			[]string{"bert"}},
		"no tokenizer": {remove("tokenizer.json"), Options{}, os.ErrNotExist,
			[]string{"tokenizer.json"}},
		"no image processor": {remove("preprocessor_config.json"), Options{}, os.ErrNotExist,
			[]string{"preprocessor_config.json"}},
		"no weights": {remove("model.safetensors"), Options{}, nil, []string{"model.safetensors"}},
		"embedding smaller than the tokenizer": {change(vlmtest.Object{"vocab_size": 265}), Options{}, nil,
			[]string{"ids, the embedding only 265 rows"}},
		"patches of another size": {func(t *testing.T, dir string) {
			vision := maps.Clone(vlmtest.Config(t, model.Qwen25VL, nil)["vision_config"].(vlmtest.Object))
			vision["patch_size"] = 8
			change(vlmtest.Object{"vision_config": vision})(t, dir)
		}, Options{}, nil, []string{"image processor has patches of 4", "the vision tower needs 8"}},
		"another placeholder": {change(vlmtest.Object{"image_token_id": 99}), Options{}, nil,
			[]string{"image_token_id is 99, the tokenizer's image placeholder is "}},
		"missing and misshaped tensors": {edit(func(f *vlmtest.File) {
			delete(f.Tensors, "model.norm.weight")
			delete(f.Tensors, "visual.blocks.0.norm1.weight")
			x := f.Tensors["model.layers.0.mlp.up_proj.weight"]
			x.Shape = slices.Clone(x.Shape)
			slices.Reverse(x.Shape)
			f.Tensors["model.layers.0.mlp.up_proj.weight"] = x
			x = f.Tensors["model.embed_tokens.weight"]
			f.Tensors["lm_head.weight"], f.Values["lm_head.weight"] = x, f.Values["model.embed_tokens.weight"]
			x.Shape, f.Values["model.embed_tokens.weight"] = []int{1, 16}, make([]float32, 16)
			f.Tensors["model.embed_tokens.weight"] = x
		}), Options{}, ErrWeights, []string{
			"in 4 places:", "model.language_model.norm.weight [16] is missing", "visual.blocks.0.norm1.weight [16] is missing",
			"model.layers.0.mlp.up_proj.weight has shape [16 24], must be [24 16]",
			"model.embed_tokens.weight has shape [1 16], must be [272 16]", good[:4],
		}},
		"a head that is not the tied one": {edit(func(f *vlmtest.File) {
			f.Tensors["lm_head.weight"], f.Values["lm_head.weight"] = f.Tensors["model.embed_tokens.weight"],
				make([]float32, 272*16)
		}), Options{}, ErrWeights, []string{"ties lm_head to the embedding, but lm_head.weight is stored and differs"}},
		"torn weights": {func(t *testing.T, dir string) {
			require.NoError(t, os.Truncate(filepath.Join(dir, "model.safetensors"), 5000))
		}, Options{}, nil, []string{"model.safetensors"}},
		"unknown backend": {nil, Options{Backend: "tpu"}, ErrBackend, []string{`"tpu"`}},
		"no critic there": {nil, Options{Critic: SeparateCritic, CriticPath: filepath.Join(good, "none")}, nil,
			[]string{filepath.Join(good, "none")}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "model")
			require.NoError(t, os.CopyFS(dir, os.DirFS(good)))
			if c.harm != nil {
				c.harm(t, dir)
			}
			if c.o.Backend == "" {
				c.o.Backend = backend.Go
			}
			_, err := Open(t.Context(), dir, c.o)
			require.ErrorContains(t, err, "vlm: ")
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			for _, part := range c.wanted {
				require.ErrorContains(t, err, part)
			}
		})
	}
	_, err := Open(t.Context(), filepath.Join(good, "none"), Options{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestUnusedTensorsAreReportedNotRefused(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	vlmtest.Edit(t, filepath.Join(dir, "model.safetensors"), func(f *vlmtest.File) {
		f.Tensors["left.over"], f.Values["left.over"] = safetensors.Tensor{DType: safetensors.F32, Shape: []int{2}},
			[]float32{1, 2}
		embed := f.Values["model.embed_tokens.weight"]
		for i, x := range embed { // a number that bfloat16 has
			embed[i] = math.Float32frombits(math.Float32bits(x) &^ 0xffff)
		}
		head := f.Tensors["model.embed_tokens.weight"]
		head.DType = safetensors.BF16
		f.Tensors["lm_head.weight"], f.Values["lm_head.weight"] = head, embed
	})
	var log bytes.Buffer
	openTiny(t, dir, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "one line: %s", &log)
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "tensors=[left.over]")
}

func TestClosedModelsRefuseToWork(t *testing.T) {
	m := newTiny(t, model.Qwen25VL, Options{Critic: SeparateCritic, Reference: true})
	rows, want := partsOf(m).FourRows(t)
	partsOf(m).Train(t, 1)
	_, err := m.Generate(t.Context(), vlmtest.Asks(), policy.Sampling{MaxTokens: 2})
	require.NoError(t, err)
	_, err = m.Score(t.Context(), nil, nil, everything, 1)
	require.EqualError(t, err, "vlm: score: the rows are nil")
	_, err = m.Update(t.Context(), nil, policy.Objective{}, policy.DefaultOptimizer())
	require.EqualError(t, err, "vlm: update: the batch is nil")
	require.NoError(t, m.Close())
	require.NoError(t, m.Close())
	live, bytes := m.dev.Live()
	require.Equal(t, []int64{0, 0}, []int64{live, bytes}, "everything on the device is free")
	_, err = m.Generate(t.Context(), vlmtest.Asks(), policy.Sampling{MaxTokens: 2})
	require.ErrorIs(t, err, ErrClosed)
	_, err = m.Score(t.Context(), &rows, want, everything, 1)
	require.ErrorIs(t, err, ErrClosed)
	_, err = m.Update(t.Context(), &policy.Batch{Rows: rows}, policy.Objective{}, policy.DefaultOptimizer())
	require.ErrorIs(t, err, ErrClosed)
	require.ErrorIs(t, m.Save(t.Context(), t.TempDir()), ErrClosed)
	require.ErrorIs(t, m.Restore(t.Context(), t.TempDir()), ErrClosed)
	require.ErrorIs(t, m.Tie(t.Context()), ErrClosed)
	m.Forget(1)
}

// Drafts need kernels, whose bits do not depend on what else is in a pass, and a cache that can be cut back.
func TestDraftTokensAreChecked(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	for _, n := range []int{-1, 4} {
		_, err := Open(t.Context(), dir, Options{Backend: backend.Go, DraftTokens: n})
		testkit.Error(t, err, ErrOption, fmt.Sprintf("DraftTokens is %d, must be in [0, 3]", n))
	}
	_, err := Open(t.Context(), dir, Options{Backend: backend.Go, DraftTokens: 3})
	testkit.Error(t, err, ErrOption, "DraftTokens is 3, must be 0 on go without the kernels for a CPU")
	_, err = Open(t.Context(), dir, Options{Backend: devicetest.Backend(), DraftTokens: 3, LoRA: &LoRA{Rank: 2, Alpha: 4}})
	testkit.Error(t, err, ErrOption, "DraftTokens is 3, must be 0")
	if m := openTiny(t, dir, Options{Backend: devicetest.Backend()}); fused.Registered() && m.Backend() == "xla:cpu" {
		m = openTiny(t, dir, Options{Backend: devicetest.Backend(), DraftTokens: 3})
		require.Contains(t, m.Gauges(), "tokens_per_pass")
	}
	hybrid := vlmtest.Folder(t, model.Qwen35Text, nil)
	_, err = Open(t.Context(), hybrid, Options{Backend: backend.Go, DraftTokens: 3})
	require.ErrorContains(t, err, "DraftTokens is 3, must be 0 for a model whose layers keep a state")
	for want, o := range map[string]Options{ // no device is needed to know
		"must be 0 for a model of this family, or with adapters": {LoRA: &LoRA{Rank: 2, Alpha: 4}},
		"must be 0 with activations in BFloat16":                 {BFloat16: true},
	} {
		o.DraftTokens = 1
		_, err = Check(t.Context(), dir, o)
		testkit.Error(t, err, ErrOption, "DraftTokens is 1, "+want)
	}
	_, err = Check(t.Context(), dir, Options{LoRA: &LoRA{Rank: 2, Alpha: 4}, DraftTokens: 1, RolloutDType: RolloutInt8})
	require.NoError(t, err)
	_, err = Check(t.Context(), hybrid, Options{DraftTokens: 1})
	testkit.Error(t, err, ErrOption, "keep a state")
	_, err = Check(t.Context(), hybrid, Options{TokensPerCall: 2})
	testkit.Error(t, err, ErrOption, "keep a state")
}

// TestTheVariableOfKernelsIsChecked: off does not disable them.
func TestTheVariableOfKernelsIsChecked(t *testing.T) {
	t.Setenv(fused.Variable, "off")
	_, err := Open(t.Context(), vlmtest.Folder(t, model.Qwen2, nil), Options{Backend: backend.Go})
	testkit.Error(t, err, ErrOption, `$VAGEN_KERNELS is "off", must be 0, or 1 or empty`)
}

func TestTokensPerCallAreChecked(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	for _, n := range []int{-1, 3, 16} {
		_, err := Open(t.Context(), dir, Options{Backend: backend.Go, TokensPerCall: n})
		testkit.Error(t, err, ErrOption, fmt.Sprintf("TokensPerCall is %d, must be 0, 1, 2, 4 or 8", n))
	}
	_, err := Open(t.Context(), dir, Options{Backend: backend.Go, TokensPerCall: 2})
	testkit.Error(t, err, ErrOption, "TokensPerCall is 2, must be 0 or 1 on backend go")
	openTiny(t, dir, Options{TokensPerCall: 1})
}

func TestOffloadingNeedsWhatItMoves(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	_, err := Open(t.Context(), dir, Options{Backend: backend.Go, OffloadReference: true, OffloadCriticMoments: true,
		Critic: SharedCritic})
	require.ErrorIs(t, err, ErrOption)
	require.ErrorContains(t, err, "OffloadReference true, but Reference is not set")
	require.ErrorContains(t, err, `OffloadCritic is false and OffloadCriticMoments true, but Critic is "shared", not "separate"`)
}

// TestSnapshotsOfDividedWeightsWriteTheSame: a policy snapshot of weights that are divided over devices writes what
// whole ones write, and leaves the model as it was.
func TestSnapshotsOfDividedWeightsWriteTheSame(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	for _, l := range []*LoRA{nil, {Rank: 2, Alpha: 4}} {
		o := Options{Devices: 4, LoRA: l}
		whole := openTiny(t, dir, o)
		o.ShardWeights = true
		divided := openTiny(t, dir, o)
		sampling := policy.Sampling{Temperature: 1, MaxTokens: 6}
		want, err := whole.Generate(t.Context(), vlmtest.Asks(), sampling)
		require.NoError(t, err)
		for _, m := range []*Model{whole, divided} {
			snapshot, err := m.SnapshotPolicy(t.Context())
			require.NoError(t, err)
			written, err := snapshot.Generate(t.Context(), vlmtest.Asks(), sampling)
			require.NoError(t, err)
			require.Equal(t, want, written)
			partsOf(m).Train(t, 1)
			require.NoError(t, snapshot.Close())
		}
	}
}

func TestNumbersOfDevicesAreChecked(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen25VL, nil)
	for n, says := range map[int]string{
		3: "must be 1, 2, 4 or 8", 16: "at most 8 devices are allowed", -2: "must be 1, 2, 4 or 8",
	} {
		_, err := Open(t.Context(), dir, Options{Backend: backend.Go, Devices: n})
		testkit.Error(t, err, ErrOption, fmt.Sprintf("Devices: bad number of devices: %d, ", n), says)
	}
	m := openTiny(t, dir, Options{Devices: AllDevices, PreferDevices: 4})
	require.Len(t, m.devices, 1, "a CPU is one device unless more are asked for")
	require.Zero(t, m.parts)
}

func TestPartsForEachDeviceExcludeSameBytes(t *testing.T) {
	_, err := Open(t.Context(), t.TempDir(), Options{Backend: backend.Go, SameBytes: true, PartPerDevice: true})
	testkit.Error(t, err, ErrOption, "SameBytes and PartPerDevice exclude each other")
}

// A folder with a model is not overwritten, in particular that of the model itself.
func TestExportRefusesTheFolderOfAModel(t *testing.T) {
	dir := vlmtest.Folder(t, model.Qwen2, nil)
	before := vlmtest.Files(t, dir)
	m := openTiny(t, dir, Options{})
	require.ErrorIs(t, m.Export(t.Context(), dir), safetensors.ErrExists)
	require.Equal(t, before, vlmtest.Files(t, dir))
}
