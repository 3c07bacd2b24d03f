package bench

import (
	"encoding/json"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/policy"
	"vagen/policy/vlm"
)

// llama is a small model's shape.
var llama = vlm.Shape{Family: "llama", Hidden: 16, FF: 24, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 8,
	RopeTheta: 10000, MaxPositions: 512}

// tiny opens a small model, with its own chat template or another one.
func tiny(t *testing.T, template string) *vlm.Model {
	t.Helper()
	return open(t, llama, template, vlm.Options{Backend: "go"})
}

func open(t *testing.T, s vlm.Shape, template string, o vlm.Options) *vlm.Model {
	t.Helper()
	dir := tinymodel.Create(t, s, nil, 1)
	if template != "" {
		testkit.Write(t, filepath.Join(dir, "chat_template.jinja"), template)
	}
	m, err := vlm.Open(t.Context(), dir, o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

func TestEveryModeReportsWhatItMeasured(t *testing.T) {
	m := tiny(t, "")
	for _, mode := range Modes() {
		c := Config{Mode: mode, Batch: 2, Seq: 120, Steps: 2}
		if mode == Decode {
			c.Temperature, c.TopP = 1, 0.9
		}
		r, err := Run(t.Context(), m, c)
		require.NoError(t, err, mode)
		assert.Equal(t, []float64{c.Temperature, c.TopP}, []float64{r.Temperature, r.TopP})
		tokens := 2 * 120.0
		if mode == Decode {
			tokens = 2
			assert.GreaterOrEqual(t, r.Steps, 16)
		}
		assert.InEpsilon(t, tokens/r.MillisPerStep*1000, r.TokensPerSecond, 1e-9, mode)
		assert.Positive(t, r.FirstStep)
		assert.Positive(t, r.CompileSeconds)
		assert.InEpsilon(t, float64(r.Bytes)/r.MemoryLimit/(r.MillisPerStep/1000), r.MemoryUse, 1e-9, mode)
		assert.InEpsilon(t, r.LeastMillis/r.MillisPerStep, max(r.MemoryUse, r.HardwareUse), 1e-9, mode)
		raw, err := json.Marshal(r)
		require.NoError(t, err)
		var line map[string]any
		require.NoError(t, json.Unmarshal(raw, &line))
		for _, key := range []string{"system", "model", "backend", "mode", "batch", "seq", "ms_per_step", "tokens_per_second",
			"compile_seconds", "peak_rss_bytes",
			"bytes_per_step", "model_flops_per_step", "measured_bytes_per_second", "memory_utilisation", "bound"} {
			assert.Contains(t, line, key)
		}
	}
}

// TestAStepIsATokenOfEveryRow: rows that do not decode together follow each other, each with all of its tokens.
func TestAStepIsATokenOfEveryRow(t *testing.T) {
	s, at, cpu := ticks{begun: map[int]bool{}}, time.Time{}, time.Duration(0)
	for part, rows := range [][]int{{0, 1}, {2}, {3, 4}} {
		took := time.Duration(part+1) * time.Millisecond
		at, cpu = at.Add(time.Hour), cpu+time.Hour // its contexts are read
		for range warmDecoded + decodedTogether + 3 {
			for _, row := range rows {
				s.note(row, tick{at, cpu})
			}
			at, cpu = at.Add(took), cpu+2*took
		}
	}
	steps, used := s.times()
	require.Equal(t, []time.Duration{6 * time.Millisecond, 6 * time.Millisecond, 6 * time.Millisecond}, steps)
	require.Equal(t, 3*12*time.Millisecond, used)
}

// TestRowsOfSeveralBatchesAreTimedOnce each: a step is not one of a batch.
func TestRowsOfSeveralBatchesAreTimedOnce(t *testing.T) {
	m := open(t, llama, "", vlm.Options{Backend: "go", MaxRows: 1})
	r, err := Run(t.Context(), m, Config{Mode: Decode, Batch: 3, Seq: 120, Steps: 2})
	require.NoError(t, err)
	require.Equal(t, leastDecoded, r.Steps)
}

func TestPromptsHaveTheRequestedLength(t *testing.T) {
	const thinking = `{%- for m in messages %}` +
		`{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}` +
		`{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}`
	for template, opened := range map[string]string{"": "", thinking: "<think>\n"} {
		r := &runner{Config: Config{Batch: 3, Seq: 133}, model: tiny(t, template)}
		require.Equal(t, opened, r.model.Opened())
		prompts, err := r.prompts()
		require.NoError(t, err)
		for _, p := range prompts {
			answer := policy.Message{Role: policy.Assistant, Text: opened + "1"}
			pieces, _, err := r.model.Encode(append(p.Messages, answer))
			require.NoError(t, err)
			assert.Len(t, pieces[0].Tokens, 133)
		}
		r.Seq = 5
		_, err = r.prompts()
		require.ErrorIs(t, err, ErrConfig)
	}
}

// TestLargeGradientsAreTimed: training would skip this step, whose gradient has a norm above 1000.
func TestLargeGradientsAreTimed(t *testing.T) {
	m := open(t, vlm.Shape{Family: "qwen3_5_text", Hidden: 32, FF: 48, Layers: 24, Heads: 2, KVHeads: 1, HeadDim: 16,
		RopeTheta: 10000, MaxPositions: 64,
		Linear: vlm.LinearShape{KeyHeads: 1, ValueHeads: 2, HeadDim: 8, Kernel: 4, Interval: 4}}, "",
		vlm.Options{Backend: "go"})
	_, err := Run(t.Context(), m, Config{Mode: Train, Batch: 2, Seq: 64, Steps: 1})
	require.NoError(t, err)
}

func TestConfigReportsAllErrors(t *testing.T) {
	_, err := Run(t.Context(), nil, Config{Mode: "nap", Batch: 0, Seq: 1, Steps: 0, Temperature: -1, TopP: 2})
	require.ErrorIs(t, err, ErrConfig)
	for _, name := range []string{"nap", "batch", "seq", "steps", "must be 0 in mode", "must be in [1e-9"} {
		assert.ErrorContains(t, err, name)
	}
}

// 6 GB and 12 TFLOP on a machine of 3 TB/s and 400 TFLOP/s take 2 ms and 30 ms.
func TestALimitIsReportedAsBinding(t *testing.T) {
	limits := vlm.Limits{BytesPerSecond: 3e12, FLOPs: 400e12}
	e := compare(vlm.Cost{Bytes: 6e9, FLOPs: 8e12, HardwareFLOPs: 12e12}, limits, 0.04)
	assert.Equal(t, ComputeBound, e.Bound)
	assert.InDelta(t, 30, e.LeastMillis, 1e-9)
	assert.InDelta(t, 0.05, e.MemoryUse, 1e-9)
	assert.InDelta(t, 0.5, e.ComputeUse, 1e-9)
	assert.InDelta(t, 0.75, e.HardwareUse, 1e-9)
	e = compare(vlm.Cost{Bytes: 6e9, FLOPs: 8e9, HardwareFLOPs: 8e9}, limits, 0.004)
	assert.Equal(t, MemoryBound, e.Bound)
	assert.InDelta(t, 2, e.LeastMillis, 1e-9)
	assert.InDelta(t, 0.5, e.MemoryUse, 1e-9)
}
