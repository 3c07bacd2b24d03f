package generate

import (
	"encoding/json"
	"fmt"
	"image"
	"maps"

	"vagen/internal/dialogue"
	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/internal/net"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

// Encoder encodes conversations: tokenizer, chat template and image processor. It needs no device.
type Encoder struct {
	dialogue.Encoder
	Cfg      *model.Config
	proc     *processor.Processor // nil for text models
	template map[string]any       // variables of the chat template
	Pictures *pictureCache
}

// OpenEncoder loads tokenizer, chat template, end tokens of generation and image processor, and
// checks them against the config, in which it sets what they determine.
func OpenEncoder(dir string, cfg *model.Config, template map[string]any) (*Encoder, error) {
	d, err := dialogue.Open("vlm", dir, cfg.Text.Vocab, cfg.EndOfTurn, template)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	x := NewEncoder(d, cfg, template)
	cfg.EndOfTurn = d.End
	if x.Cfg.Vision == nil {
		return x, nil
	}
	if x.proc, err = processor.Load(dir); err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	c, v := x.proc.Config(), x.Cfg.Vision
	if c.PatchSize != v.Patch || c.MergeSize != v.Merge || c.TemporalPatchSize != v.Temporal {
		return nil, fmt.Errorf("vlm: %s: image processor has patches of %d, merged by %d, %d frames; the vision tower needs %d, %d, %d",
			dir, c.PatchSize, c.MergeSize, c.TemporalPatchSize, v.Patch, v.Merge, v.Temporal)
	}
	if pad := x.Tok.Special().ImagePad; pad != x.Cfg.ImageToken {
		return nil, fmt.Errorf("vlm: %s: image_token_id is %d, the tokenizer's image placeholder is %d", dir,
			x.Cfg.ImageToken, pad)
	}
	x.Cfg.Rescale, x.Cfg.NormMean, x.Cfg.NormStd = c.Rescale, c.Mean, c.Std
	return x, nil
}

// NewEncoder returns an encoder without an image processor.
func NewEncoder(d dialogue.Encoder, cfg *model.Config, template map[string]any) *Encoder {
	x := &Encoder{Encoder: d, Cfg: cfg, template: template, Pictures: NewPictureCache(PlayedPictures)}
	x.Vision, x.Images = cfg.Vision != nil, x.placeholders
	return x
}

// placeholders prepares the images of messages, with which a round of conversations begins.
func (x *Encoder) placeholders(groups [][]image.Image) ([][]policy.Image, [][]int, []error) {
	x.Pictures.startRound(false)
	refs, pics, errs := x.PrepareImages(groups)
	counts := make([][]int, len(pics))
	for i := range pics {
		counts[i] = x.counts(pics[i])
	}
	return refs, counts, errs
}

// counts returns the numbers of placeholders.
func (x *Encoder) counts(pics []net.Picture) []int {
	var out []int
	for _, pic := range pics {
		out = append(out, pic.Grid.Tokens(x.Cfg.Vision.Merge))
	}
	return out
}

// WithTools returns an encoder of conversations with definitions of tools: a JSON list, which
// the chat template shows.
func (x *Encoder) WithTools(tools string) (policy.Encoder, error) {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(tools), &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf(
			"vlm: %w: the definitions of tools must be a JSON list that is not empty", tokenizer.ErrText,
		)
	}
	vars := map[string]any{"tools": json.RawMessage(tools)}
	maps.Copy(vars, x.template)
	chat, err := x.Tok.Chat(vars)
	if err != nil {
		return nil, fmt.Errorf("vlm: with tools: %w", err)
	}
	question := []tokenizer.Message{tokenizer.Text(tokenizer.RoleUser, "x")}
	without, err := x.Chat.Render(question)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if with, err := chat.Render(question); err != nil || with == without {
		return nil, fmt.Errorf("vlm: %w: the chat template shows no definitions of tools", tokenizer.ErrText)
	}
	other := *x
	other.Chat = chat
	return &other, nil
}

// MaxPositions returns the maximum length of a row in tokens; 0 is no limit.
func (x *Encoder) MaxPositions() int { return x.Cfg.Text.MaxPositions }
