package generate

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

// Encoder encodes conversations: tokenizer, chat template and image processor. It needs no device.
type Encoder struct {
	Cfg      *model.Config
	Tok      *tokenizer.Tokenizer
	Chat     *tokenizer.Chat
	proc     *processor.Processor // nil for text models
	template map[string]any       // variables of the chat template
	Pictures *pictureCache
}

var _ policy.Aligner = (*Encoder)(nil)

// OpenEncoder loads tokenizer, chat template, end tokens of generation and image processor, and
// checks them against the config, in which it sets what they determine.
func OpenEncoder(dir string, cfg *model.Config, template map[string]any) (*Encoder, error) {
	x := &Encoder{Cfg: cfg, template: template, Pictures: NewPictureCache(PlayedPictures)}
	var err error
	if x.Tok, err = tokenizer.Load(dir); err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if x.Chat, err = x.Tok.Chat(template); err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if err := x.Tok.CheckVariables(template); err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	if n := x.Tok.VocabSize(); n > x.Cfg.Text.Vocab {
		return nil, fmt.Errorf("vlm: %s: the tokenizer has %d ids, the embedding only %d rows", dir, n, x.Cfg.Text.Vocab)
	}
	generation, err := endtokens.Generation(dir, x.Cfg.Text.Vocab)
	if err != nil {
		return nil, fmt.Errorf("vlm: %w", err)
	}
	_, turn := x.Chat.EndOfTurn()
	x.Cfg.EndOfTurn = endtokens.Union(x.Cfg.EndOfTurn, generation, []int32{turn})
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

func (x *Encoder) dialogue() dialogue.Encoder {
	return dialogue.Encoder{Name: "vlm", Tokenizer: x.Tok, Chat: x.Chat, Vision: x.Cfg.Vision != nil,
		End: x.Cfg.EndOfTurn, Images: x.placeholders}
}

// placeholders prepares the images of messages.
func (x *Encoder) placeholders(groups [][]image.Image) ([][]policy.Image, [][]int, []error) {
	refs, pics, errs := x.PrepareImages(groups)
	counts := make([][]int, len(pics))
	for i := range pics {
		for _, pic := range pics[i] {
			counts[i] = append(counts[i], pic.Grid.Tokens(x.Cfg.Vision.Merge))
		}
	}
	return refs, counts, errs
}

// Encode implements policy.Encoder: the tokens of a conversation as Generate would have
// read and written them, turn by turn. Messages after the assistant's last one are
// ignored.
func (x *Encoder) Encode(messages []policy.Message) ([]policy.Piece, []policy.Image, error) {
	x.Pictures.startRound(false)
	return x.dialogue().Encode(messages)
}

// EncodeSystem implements policy.SystemEncoder.
func (x *Encoder) EncodeSystem(text string) ([]int32, error) { return x.dialogue().EncodeSystem(text) }

// Opened implements policy.Templated.
func (x *Encoder) Opened() string { return x.Chat.Opened() }

// RewritesHistory implements policy.Templated.
func (x *Encoder) RewritesHistory() bool { return x.Chat.RewritesHistory() }

// Response implements policy.Templated.
func (x *Encoder) Response(tokens []int32) string { return x.dialogue().Response(tokens) }

// Ends implements policy.Aligner.
func (x *Encoder) Ends(tokens []int32) []int { return x.Chat.Ends(x.Tok, tokens) }

// ToolCalls returns the text of a response that calls tools, as the chat template shows it: see
// tokenizer.Chat.ToolCalls.
func (x *Encoder) ToolCalls(text, calls string) (string, error) {
	out, err := x.Chat.ToolCalls(text, json.RawMessage(calls))
	if err != nil {
		return "", fmt.Errorf("vlm: %w", err)
	}
	return out, nil
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
