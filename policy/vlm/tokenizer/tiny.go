package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// tinyTemplate renders like the template of the released Qwen2.5-VL.
const tinyTemplate = `{%- macro body(content) -%}
    {%- if content is string -%}
        {{- content -}}
    {%- else -%}
        {%- for part in content -%}
            {%- if part.type == 'image' or 'image' in part or 'image_url' in part -%}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
            {%- elif part.type == 'video' or 'video' in part -%}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
            {%- elif 'text' in part -%}
                {{- part.text -}}
            {%- endif -%}
        {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}
{%- if not messages or messages[0].role != 'system' -%}
    {{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' -}}
{%- endif -%}
{%- for message in messages -%}
    {{- '<|im_start|>' + message.role + '\n' + body(message.content) + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\n' -}}
{%- endif -%}
`

// tinySpecial are the special tokens of a tiny tokenizer, from id 256 on.
var tinySpecial = []string{
	"<|endoftext|>", "<|im_start|>", "<|im_end|>",
	"<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>",
}

// NewTiny creates a complete tokenizer for a small model trained from scratch: one
// token per byte (ids 0 to 255, equal to the byte), the special tokens and the chat
// template of Qwen2.5-VL, then words. Each word is one token that is matched wherever
// it occurs, longest first. There are no merges, so other text costs one token per
// byte. Save writes a folder that transformers' AutoTokenizer loads.
//
// Words are used literally: " goal" and "goal" are two words. A word of one ASCII
// character is the token of that byte. The error lists words that are empty,
// repeated, not UTF-8, reserved, or not decodable: byte-level tokenizers decode an
// added token that consists only of ASCII and certain Latin characters, for instance
// "é", to other bytes.
func NewTiny(words []string) (t *Tokenizer, err error) {
	spec, err := tinySpec(words)
	if err == nil {
		raw, failed := json.MarshalIndent(spec, "", " ")
		cfg, wrong := json.MarshalIndent(tinyConfig(spec.AddedTokens), "", " ")
		if err = errors.Join(failed, wrong); err == nil {
			t, err = parse(files{
				tokenizerFile: append(raw, '\n'),
				configFile:    append(cfg, '\n'),    // older versions of transformers read the template from here,
				jinjaFile:     []byte(tinyTemplate), // newer ones and processors from this file
			})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: tiny: %w", err)
	}
	return t, nil
}

// tinyFile is tokenizer.json as NewTiny writes it, with the keys in the usual order.
type tinyFile struct {
	Version       string    `json:"version"`
	Truncation    any       `json:"truncation"`
	Padding       any       `json:"padding"`
	AddedTokens   []*added  `json:"added_tokens"`
	Normalizer    any       `json:"normalizer"`
	PreTokenizer  any       `json:"pre_tokenizer"`
	PostProcessor any       `json:"post_processor"`
	Decoder       any       `json:"decoder"`
	Model         modelSpec `json:"model"`
}

func tinySpec(words []string) (tinyFile, error) {
	byteLevel := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}
	spec := tinyFile{
		Version:    "1.0",
		Normalizer: map[string]any{"type": "NFC"},
		PreTokenizer: map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": patternQwen2}, "behavior": "Isolated",
				"invert": false},
			byteLevel,
		}},
		Decoder: byteLevel,
		Model:   modelSpec{Type: "BPE", Vocab: map[string]int32{}, Merges: []mergePair{}},
	}
	for b, r := range byteToRune {
		spec.Model.Vocab[string(r)] = int32(b)
	}
	seen := map[string]bool{}
	add := func(text string, special bool) {
		seen[text] = true
		spec.AddedTokens = append(spec.AddedTokens, &added{ID: 256 + int32(len(spec.AddedTokens)), Content: text,
			Special: special})
	}
	for _, text := range tinySpecial {
		add(text, true)
	}
	var errs []error
	bad := func(i int, why string) {
		errs = append(errs, fmt.Errorf("%w: word %d, %q, %s", ErrText, i, words[i], why))
	}
	for i, word := range words {
		switch {
		case word == "":
			bad(i, "is empty")
		case !utf8.ValidString(word):
			bad(i, "is not valid UTF-8")
		case seen[word]:
			bad(i, "is repeated")
		case toBytes(word) != word:
			bad(i, "cannot be decoded as an added token")
		case len(word) == 1:
			seen[word] = true
		default:
			add(word, false)
		}
	}
	return spec, errors.Join(errs...)
}

func tinyConfig(tokens []*added) map[string]any {
	decoder := map[string]any{}
	for _, a := range tokens {
		decoder[strconv.Itoa(int(a.ID))] = map[string]any{
			"content": a.Content, "lstrip": false, "normalized": false, "rstrip": false, "single_word": false,
			"special": a.Special,
		}
	}
	return map[string]any{
		"tokenizer_class":              "Qwen2Tokenizer",
		"add_prefix_space":             false,
		"added_tokens_decoder":         decoder,
		"additional_special_tokens":    tinySpecial[1:],
		"bos_token":                    nil,
		"eos_token":                    "<|im_end|>",
		"pad_token":                    "<|endoftext|>",
		"unk_token":                    nil,
		"clean_up_tokenization_spaces": false,
		"split_special_tokens":         false,
		"errors":                       "replace",
		"model_max_length":             131072,
		"chat_template":                tinyTemplate,
	}
}
