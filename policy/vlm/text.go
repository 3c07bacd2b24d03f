package vlm

import (
	"encoding/json"
	"fmt"
	"image"
	"maps"

	"vagen/internal/dialogue"
	"vagen/internal/endtokens"
	"vagen/policy"
	"vagen/policy/vlm/internal/model"
	"vagen/policy/vlm/processor"
	"vagen/policy/vlm/tokenizer"
)

// text encodes conversations: tokenizer, chat template and image processor. It needs no device.
type text struct {
	cfg      *model.Config
	tok      *tokenizer.Tokenizer
	chat     *tokenizer.Chat
	proc     *processor.Processor // nil for text models
	template map[string]any       // variables of the chat template
	pictures *pictureCache
}

var _ policy.Aligner = (*text)(nil)

// openText loads tokenizer, chat template, end tokens of generation and image processor, and
// checks them against the config, in which it sets what they determine.
func openText(dir string, cfg *model.Config, template map[string]any) (*text, error) {
	x := &text{cfg: cfg, template: template, pictures: newPictureCache(playedPictures)}
	var err error
	if x.tok, err = tokenizer.Load(dir); err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if x.chat, err = x.tok.Chat(template); err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if n := x.tok.VocabSize(); n > x.cfg.Text.Vocab {
		return nil, fmt.Errorf("vlm: %s: the tokenizer has %d ids, the embedding only %d rows", dir, n, x.cfg.Text.Vocab)
	}
	generation, err := endtokens.Generation(dir, x.cfg.Text.Vocab)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	_, turn := x.chat.EndOfTurn()
	x.cfg.EndOfTurn = endtokens.Union(x.cfg.EndOfTurn, generation, []int32{turn})
	if x.cfg.Vision == nil {
		return x, nil
	}
	if x.proc, err = processor.Load(dir); err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	c, v := x.proc.Config(), x.cfg.Vision
	if c.PatchSize != v.Patch || c.MergeSize != v.Merge || c.TemporalPatchSize != v.Temporal {
		return nil, fmt.Errorf("vlm: %s: image processor has patches of %d, merged by %d, %d frames; the vision tower needs %d, %d, %d",
			dir, c.PatchSize, c.MergeSize, c.TemporalPatchSize, v.Patch, v.Merge, v.Temporal)
	}
	if pad := x.tok.Special().ImagePad; pad != x.cfg.ImageToken {
		return nil, fmt.Errorf("vlm: %s: image_token_id is %d, the tokenizer's image placeholder is %d", dir, x.cfg.ImageToken, pad)
	}
	x.cfg.Rescale, x.cfg.NormMean, x.cfg.NormStd = c.Rescale, c.Mean, c.Std
	return x, nil
}

func (x *text) dialogue() dialogue.Encoder {
	return dialogue.Encoder{Name: "vlm", Tokenizer: x.tok, Chat: x.chat, Vision: x.cfg.Vision != nil,
		End: x.cfg.EndOfTurn, Images: x.placeholders}
}

// placeholders prepares the images of messages.
func (x *text) placeholders(groups [][]image.Image) ([][]policy.Image, [][]int, []error) {
	refs, pics, errs := x.prepareImages(groups)
	counts := make([][]int, len(pics))
	for i := range pics {
		for _, pic := range pics[i] {
			counts[i] = append(counts[i], pic.Grid.Tokens(x.cfg.Vision.Merge))
		}
	}
	return refs, counts, errs
}

// Encode implements policy.Encoder: the tokens of a conversation as Generate would have
// read and written them, turn by turn. Messages after the assistant's last one are
// ignored.
func (x *text) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	x.pictures.startRound()
	return x.dialogue().Encode(messages)
}

// Opened implements policy.Templated.
func (x *text) Opened() string { return x.chat.Opened() }

// RewritesHistory implements policy.Templated.
func (x *text) RewritesHistory() bool { return x.chat.RewritesHistory() }

// Response implements policy.Templated.
func (x *text) Response(tokens []int32) string { return x.dialogue().Response(tokens) }

// Ends implements policy.Aligner.
func (x *text) Ends(tokens []int32) []int { return x.chat.Ends(x.tok, tokens) }

// ToolCalls returns the text of a response that calls tools, as the chat template shows it: see
// tokenizer.Chat.ToolCalls.
func (x *text) ToolCalls(text, calls string) (string, error) {
	out, err := x.chat.ToolCalls(text, json.RawMessage(calls))
	if err != nil {
		return "", fmt.Errorf("vlm: %w", err)
	}
	return out, nil
}

// WithTools returns an encoder of conversations with definitions of tools: a JSON list, which
// the chat template shows.
func (x *text) WithTools(tools string) (policy.Encoder, error) {
	var list []json.RawMessage
	if err := json.Unmarshal([]byte(tools), &list); err != nil || len(list) == 0 {
		return nil, fmt.Errorf(
			"vlm: %w: the definitions of tools must be a JSON list that is not empty", tokenizer.ErrText,
		)
	}
	vars := map[string]any{"tools": json.RawMessage(tools)}
	maps.Copy(vars, x.template)
	chat, err := x.tok.Chat(vars)
	if err != nil {
		return nil, fmt.Errorf("vlm: with tools: %w", err)
	}
	question := []tokenizer.Message{tokenizer.Text(tokenizer.RoleUser, "x")}
	without, err := x.chat.Render(question)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if with, err := chat.Render(question); err != nil || with == without {
		return nil, fmt.Errorf("vlm: %w: the chat template shows no definitions of tools", tokenizer.ErrText)
	}
	other := *x
	other.chat = chat
	return &other, nil
}

// MaxPositions returns the maximum length of a row in tokens; 0 is no limit.
func (x *text) MaxPositions() int { return x.cfg.Text.MaxPositions }
