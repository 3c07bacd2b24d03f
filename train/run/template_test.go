package run

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vagen/env/builtin"
	"vagen/internal/testkit"
	"vagen/internal/tinymodel"
	"vagen/internal/traintest"
	"vagen/policy"
	"vagen/policy/vlm"
	"vagen/rollout"
	"vagen/train/config"
)

// templateModel is a small model with a chat template that asks for responses with a text.
func templateModel(t *testing.T, asks string) string {
	dir := tinymodel.Create(t, tinymodel.Shape(), nil, 1)
	template := `{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}` +
		`{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n` + asks + `' }}{%- endif %}`
	testkit.Write(t, filepath.Join(dir, "chat_template.jinja"), template)
	return dir
}

// A template that opens a thought trains and evaluates with formats that have one; others are
// refused before anything is written, in the supervised stage by the example.
func TestATemplateAndAFormatThatDoNotFitAreNamedAtTheStart(t *testing.T) {
	c := config.Default()
	c.Agent.Model.Path, c.Env.Name = templateModel(t, `<think>\n`), "frozenlake"
	for format, refused := range map[string]bool{"free_think": false, "wm": false, "no_think": true} {
		c.Env.Config = map[string]any{"render_mode": "text", "prompt_format": format, "rules": "legacy"}
		if format == "wm" {
			c.Env.Config["rules"] = "lite"
		}
		err := preflightOf(t, &c, builtin.Registry())
		if !refused {
			require.NoError(t, err, format)
			continue
		}
		testkit.Error(t, err, config.ErrConfig, `env: frozenlake: `,
			`no response that begins so has the format no_think (<answer>-</answer>)`,
			"env.config.prompt_format, data.apply_chat_template_kwargs")
	}

	c = config.Default()
	c.Agent.Model.Path, c.Trainer.Stage = templateModel(t, `<think>\n`), config.StageSFT
	for response, refused := range map[string]bool{"<think>go</think>Up": false, "Up": true} {
		path := testkit.File(t, "chats.jsonl", `{"prompt": "where?", "response": "`+response+`"}`+"\n")
		c.SFT.TrainFiles = []string{path}
		supervised := c.Supervised()
		_, err := prepare(t.Context(), &supervised, &Options{})
		if !refused {
			require.NoError(t, err)
			continue
		}
		testkit.Error(t, err, config.ErrConfig, "line 1: ", "must begin with <think>")
	}
}

// Whoever trains with a template that rewrites history is told, once for all stages.
func TestRewrittenHistoryIsToldOnce(t *testing.T) {
	for asks, want := range map[string]int{`<think>\n`: 0, ``: 0, `<think>\n\n</think>\n`: 1} {
		d, err := vlm.Check(t.Context(), templateModel(t, asks), vlm.Options{})
		require.NoError(t, err)
		var out bytes.Buffer
		o := Options{Log: slog.New(slog.NewTextHandler(&out, nil))}
		o.tellHistory(d.Encoder)
		o.tellHistory(d.Encoder)
		require.Equal(t, want, strings.Count(out.String(), "the chat template shows earlier responses otherwise"), asks)
	}
}

// opening is a learner of one's own whose template opens a thought and rewrites history.
type opening struct {
	*traintest.Bandit
	fault error
}

func (opening) Opened() string          { return "<think>" }
func (opening) RewritesHistory() bool   { return true }
func (opening) Response([]int32) string { return "" }

func (o opening) Encode([]policy.Message) ([]policy.Piece, []policy.Image, error) {
	return nil, nil, o.fault
}

// The template of a learner given in Options is checked and told like that of a model.
func TestTheTemplateOfAnOwnLearnerIsChecked(t *testing.T) {
	for _, fault := range []error{nil, errors.New("no such text")} {
		var out bytes.Buffer
		o := guessing(t)
		o.Log = slog.New(slog.NewTextHandler(&out, nil))
		o.Learner = func(context.Context, string) (policy.Learner, error) {
			return opening{traintest.Guesser(), fault}, nil
		}
		r, err := Open(t.Context(), traintest.Small(), o)
		require.Equal(t, 1, strings.Count(out.String(), "the chat template shows earlier responses otherwise"))
		if fault != nil {
			require.ErrorIs(t, err, config.ErrConfig)
			require.ErrorIs(t, err, rollout.ErrTurn)
			require.ErrorIs(t, err, fault)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, r.Close())
	}
}
