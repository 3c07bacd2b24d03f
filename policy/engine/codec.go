package engine

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"vagen/internal/dialogue"
	"vagen/internal/endtokens"
	"vagen/internal/imagefile"
	"vagen/internal/jsontext"
	"vagen/internal/regular"
	"vagen/policy"
	"vagen/policy/vlm/processor"
)

// Codec converts conversations to the tokens and images that a model reads. It needs only
// the small files of a model's folder, no weights. It is safe for concurrent use.
type Codec struct {
	text dialogue.Encoder
	proc *processor.Processor // nil for text models
	vars map[string]any       // of the chat template

	image, video int32 // placeholders; −1 for none
	positions    int   // longest context; 0 is unknown
}

// modelConfig is the part of config.json that generation needs.
type modelConfig struct {
	textConfig
	Text   *textConfig      `json:"text_config"`
	Vision *json.RawMessage `json:"vision_config"`
	Image  *int32           `json:"image_token_id"`
	Video  *int32           `json:"video_token_id"`
}

type textConfig struct {
	Vocab     int           `json:"vocab_size"`
	Positions int           `json:"max_position_embeddings"`
	EOS       endtokens.IDs `json:"eos_token_id"`
}

// LoadCodec reads config.json, generation_config.json, tokenizer, chat template and image
// processor of a folder in the Hugging Face layout. template holds variables of the chat template; it may be nil.
func LoadCodec(dir string, template map[string]any) (*Codec, error) {
	raw, err := regular.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	var file modelConfig
	if err := jsontext.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("engine: %s: config.json: %w", dir, err)
	}
	text := file.textConfig
	if file.Text != nil {
		text = *file.Text
	}
	own := text.EOS
	if len(own) == 0 {
		own = file.textConfig.EOS
	}
	d, err := dialogue.Open("engine", dir, text.Vocab, own, template)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if err := own.Check(text.Vocab); err != nil {
		return nil, fmt.Errorf("engine: %s: config.json: %w", dir, err)
	}
	if text.Positions < 0 {
		return nil, fmt.Errorf("engine: %s: config.json: max_position_embeddings is %d, must not be negative",
			dir, text.Positions)
	}
	c := &Codec{text: d, positions: text.Positions, image: -1, video: -1, vars: template}
	c.text.Vision, c.text.Images = file.Vision != nil, c.placeholders
	if file.Vision == nil {
		return c, nil
	}
	if c.proc, err = processor.Load(dir); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if file.Image == nil || *file.Image != c.text.Tok.Special().ImagePad {
		return nil, fmt.Errorf("engine: %s: image_token_id of config.json is not the tokenizer's image placeholder, %d", dir,
			c.text.Tok.Special().ImagePad)
	}
	c.image = *file.Image
	if file.Video != nil {
		c.video = *file.Video
	}
	return c, nil
}

// picture is an image of a conversation.
type picture struct {
	ref    policy.Image
	tokens int    // placeholders that it takes in a row
	url    string // data URL of a PNG in the size in which the model reads it
}

// picture hashes an image and encodes it as the model reads it: resized by our processor,
// so that another implementation of resampling on the server has nothing to resample.
func (c *Codec) picture(ref policy.Image) (pic picture, err error) {
	defer func() { // the methods of a caller's image may panic
		if r := recover(); r != nil {
			err = fmt.Errorf("image cannot be read: %v", r)
		}
	}()
	if c.proc == nil {
		return pic, errors.New("the model reads text only")
	}
	if ref.Image == nil {
		return pic, errors.New("image is nil")
	}
	small, grid, err := c.proc.Resized(ref.Image)
	if err != nil {
		return pic, err
	}
	var b bytes.Buffer
	if err := imagefile.FastPNG.Encode(&b, small); err != nil {
		return pic, err
	}
	pic = picture{ref: ref, tokens: c.proc.Tokens(grid), url: "data:image/png;base64," +
		base64.StdEncoding.EncodeToString(b.Bytes())}
	if ref.Hash == ([32]byte{}) {
		pic.ref.Hash = policy.HashImage(ref.Image)
	}
	return pic, nil
}

// pictures converts the images of messages.
func (c *Codec) pictures(messages []policy.Message) ([]picture, error) {
	var all []policy.Image
	for _, m := range messages {
		for _, im := range m.Images {
			all = append(all, policy.Image{Image: im})
		}
	}
	out, err := c.picturesOf(all)
	if err != nil {
		return nil, fmt.Errorf("engine: %w: %w", policy.ErrMessages, err)
	}
	return out, nil
}

// picturesOf converts images.
func (c *Codec) picturesOf(images []policy.Image) ([]picture, error) {
	var out []picture
	for i, im := range images {
		pic, err := c.picture(im)
		if err != nil {
			return nil, fmt.Errorf("image %d: %w", i, err)
		}
		out = append(out, pic)
	}
	return out, nil
}

// counts returns the numbers of placeholders.
func counts(pics []picture) []int {
	var out []int
	for _, p := range pics {
		out = append(out, p.tokens)
	}
	return out
}

// placeholder is the position of an image in a prompt.
type placeholder struct{ offset, length int }

// collapse returns the tokens with one placeholder per image, as servers expect them, and
// the positions of the images in tokens.
func (c *Codec) collapse(tokens []int32, pics []picture) ([]int32, []placeholder, error) {
	out := make([]int32, 0, len(tokens))
	var places []placeholder
	for i := 0; i < len(tokens); i++ {
		out = append(out, tokens[i])
		if tokens[i] == c.video && c.video >= 0 { // servers may end that look for the video
			return nil, nil, fmt.Errorf("token %d is a video placeholder, but there are no videos", i)
		}
		if tokens[i] != c.image || c.image < 0 {
			continue
		}
		if len(places) == len(pics) {
			return nil, nil, fmt.Errorf("token %d is an image placeholder, but there are only %d images", i, len(pics))
		}
		n := pics[len(places)].tokens
		for k := i; k < i+n; k++ {
			if k >= len(tokens) || tokens[k] != c.image {
				return nil, nil, fmt.Errorf("image %d has %d placeholders from token %d on, must have %d", len(places), k-i, i, n)
			}
		}
		places = append(places, placeholder{i, n})
		i += n - 1
	}
	if len(places) != len(pics) {
		return nil, nil, fmt.Errorf("%d image placeholders for %d images", len(places), len(pics))
	}
	return out, places, nil
}

// Check returns an error unless the model can read tokens and images as a training row: the
// tokens are in its vocabulary, and every image has its placeholders.
func (c *Codec) Check(tokens []int32, images []policy.Image) error {
	if err := c.text.CheckTokens(tokens); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	pics := make([]picture, len(images))
	for i, im := range images {
		if im.Image == nil || c.proc == nil {
			return fmt.Errorf("engine: image %d is missing, or the model reads text only", i)
		}
		grid, err := c.proc.Grid(im.Image.Bounds().Dx(), im.Image.Bounds().Dy())
		if err != nil {
			return fmt.Errorf("engine: image %d: %w", i, err)
		}
		pics[i].tokens = c.proc.Tokens(grid)
	}
	// A response may end with a placeholder without an image only if its episode is unusable.
	_, _, err := c.collapse(tokens, pics)
	if err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	return nil
}

// ends reports whether a token ends the turn, so that the conversation continues without
// the end-of-turn token.
func (c *Codec) ends(token int32) bool {
	_, end := c.text.Chat.EndOfTurn()
	return token == end
}

// vision reports whether a token is a placeholder of an image or video.
func (c *Codec) vision(token int32) bool {
	return token >= 0 && (token == c.image || token == c.video)
}

// stops are the tokens at which a server must stop.
func (c *Codec) stops() []int32 {
	out := slices.Clone(c.text.End)
	for _, id := range []int32{c.image, c.video} {
		if id >= 0 {
			out = append(out, id)
		}
	}
	return out
}
