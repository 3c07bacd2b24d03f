package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unicode/utf8"

	"vagen/internal/jsontext"
	"vagen/internal/regular"
)

// The files of a tokenizer, by name. Only the first is required; the others are read
// if present, and all are written back unchanged.
const (
	tokenizerFile = "tokenizer.json"
	configFile    = "tokenizer_config.json"
	jinjaFile     = "chat_template.jinja"
	templateFile  = "chat_template.json"
)

var fileNames = []string{
	tokenizerFile, configFile, jinjaFile, templateFile,
	"special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
}

// maxFile bounds each file; the largest released tokenizer.json is near 20 MB.
const maxFile = 256 << 20

type files map[string][]byte

// Load reads the tokenizer of a model folder. An error wraps ErrUnsupported if
// the tokenizer needs something that this package does not know, and ErrFormat if
// its files are malformed or contradict each other.
func Load(dir string) (*Tokenizer, error) {
	all := files{}
	for _, name := range fileNames {
		raw, err := regular.ReadAtMost(filepath.Join(dir, name), maxFile, ErrFormat)
		if errors.Is(err, fs.ErrNotExist) && name != tokenizerFile {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
		all[name] = raw
	}
	t, err := parse(all)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", dir, err)
	}
	return t, nil
}

// Save writes the tokenizer's files into dir, which must exist, exactly as they
// were loaded.
func (t *Tokenizer) Save(dir string) error {
	for _, name := range fileNames {
		raw, ok := t.files[name]
		if !ok {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			return fmt.Errorf("tokenizer: %w", err)
		}
	}
	return nil
}

func parse(all files) (*Tokenizer, error) {
	var spec fileSpec
	if err := unmarshal(all, tokenizerFile, &spec); err != nil {
		return nil, err
	}
	cfg, err := readConfig(all)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{files: all, template: cfg.template, names: map[string]string{}}
	for name, text := range map[string]tokenText{"bos_token": cfg.BOS, "eos_token": cfg.EOS, "pad_token": cfg.Pad,
		"unk_token": cfg.Unk} {
		if text != "" {
			t.names[name] = string(text)
		}
	}
	if err := t.setPipeline(spec); err != nil {
		return nil, fmt.Errorf("%s: %w", tokenizerFile, err)
	}
	if err := t.setTokens(spec, cfg); err != nil {
		return nil, err
	}
	t.setSpecial(cfg)
	return t, nil
}

func unmarshal(all files, name string, dst any) error {
	raw, ok := all[name]
	if !ok {
		return nil
	}
	if err := jsontext.Unmarshal(raw, dst); err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrFormat, err)
	}
	return nil
}

// setPipeline reads the components; the error lists every unsupported one.
func (t *Tokenizer) setPipeline(spec fileSpec) error {
	var errs [4]error
	t.bpe, errs[0] = newBPE(spec.Model)
	t.nfc, errs[1] = newNormalizer(spec.Normalizer)
	t.steps, errs[2] = newSteps(spec.PreTokenizer)
	errs[3] = checkDecoder(spec.Decoder)
	if errs[2] == nil && !hasByteLevel(spec.PreTokenizer) {
		errs[2] = fmt.Errorf("%w: pre_tokenizer without ByteLevel", ErrUnsupported)
	}
	return errors.Join(errs[:]...)
}

func (t *Tokenizer) setTokens(spec fileSpec, cfg *config) error {
	list, err := cfg.merge(spec)
	if err != nil {
		return err
	}
	last := int32(-1)
	for _, id := range spec.Model.Vocab {
		last = max(last, id)
	}
	for _, a := range list {
		last = max(last, a.ID)
	}
	if last >= maxID {
		return fmt.Errorf("%w: found token id %d, must be below %d", ErrFormat, last, maxID)
	}
	t.tokens = make([]token, last+1)
	for entry, id := range spec.Model.Vocab {
		t.tokens[id] = token{bytes: toBytes(entry)}
	}
	t.added = make(map[string]*added, len(list))
	var raw, normal []*added
	for _, a := range list {
		t.added[a.Content] = a
		t.tokens[a.ID] = token{bytes: toBytes(a.Content), special: a.Special, added: true}
		if a.Normalized && !a.Special {
			normal = append(normal, a)
		} else {
			raw = append(raw, a)
		}
	}
	t.raw = newMatcher(raw, func(a *added) string { return a.Content })
	t.normal = newMatcher(normal, func(a *added) string {
		if t.nfc {
			return normalizeNFC(a.Content)
		}
		return a.Content
	})
	return nil
}

func (t *Tokenizer) setSpecial(cfg *config) {
	find := func(text string) int32 {
		if id, ok := t.TokenID(text); ok && text != "" {
			return id
		}
		return -1
	}
	t.special = Special{
		BOS: find(string(cfg.BOS)), EOS: find(string(cfg.EOS)), Pad: find(string(cfg.Pad)), Unk: find(string(cfg.Unk)),
		TurnStart: find("<|im_start|>"), TurnEnd: find("<|im_end|>"),
		VisionStart: find("<|vision_start|>"), VisionEnd: find("<|vision_end|>"),
		ImagePad: find("<|image_pad|>"), VideoPad: find("<|video_pad|>"),
	}
}

// config is tokenizer_config.json restricted to what it adds to tokenizer.json.
type config struct {
	BOS          tokenText         `json:"bos_token"`
	EOS          tokenText         `json:"eos_token"`
	Pad          tokenText         `json:"pad_token"`
	Unk          tokenText         `json:"unk_token"`
	Additional   []tokenText       `json:"additional_special_tokens"`
	AddedDecoder map[string]*added `json:"added_tokens_decoder"`
	ChatTemplate json.RawMessage   `json:"chat_template"`
	SplitSpecial bool              `json:"split_special_tokens"`
	template     string
}

// tokenText is a token as a string, as an object with a content, or null.
type tokenText string

func (t *tokenText) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '{' {
		var object struct {
			Content string `json:"content"`
		}
		err := json.Unmarshal(raw, &object)
		*t = tokenText(object.Content)
		return err
	}
	return json.Unmarshal(raw, (*string)(t))
}

func readConfig(all files) (*config, error) {
	c := &config{}
	if err := unmarshal(all, configFile, c); err != nil {
		return nil, err
	}
	if c.SplitSpecial {
		return nil, fmt.Errorf("%s: %w: split_special_tokens true", configFile, ErrUnsupported)
	}
	var err error
	c.template, err = findTemplate(all, c.ChatTemplate)
	return c, err
}

// merge returns the added tokens of both files. Tokens that the config declares
// special are special; a token that only the config has is added under its id.
func (c *config) merge(spec fileSpec) ([]*added, error) {
	list := slices.Clone(spec.AddedTokens)
	known := map[string]*added{}
	for i, a := range list {
		if a == nil {
			return nil, fmt.Errorf("%s: %w: added_tokens[%d] is null", tokenizerFile, ErrFormat, i)
		}
		known[a.Content] = a
	}
	for _, key := range slices.Sorted(maps.Keys(c.AddedDecoder)) {
		a := c.AddedDecoder[key]
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil || a == nil {
			return nil, fmt.Errorf("%s: %w: added_tokens_decoder[%q]", configFile, ErrFormat, key)
		}
		a.ID = int32(id)
		if have := known[a.Content]; have != nil {
			if have.ID != a.ID {
				return nil, fmt.Errorf("%w: token %q has id %d in %s and %d in %s", ErrFormat, a.Content, have.ID, tokenizerFile,
					a.ID, configFile)
			}
			have.Special = have.Special || a.Special
			continue
		}
		known[a.Content] = a
		list = append(list, a)
	}
	for _, text := range append([]tokenText{c.BOS, c.EOS, c.Pad, c.Unk}, c.Additional...) {
		if a := known[string(text)]; a != nil {
			a.Special = true
		} else if id, ok := spec.Model.Vocab[string(text)]; ok {
			a := &added{ID: id, Content: string(text), Special: true}
			known[a.Content] = a
			list = append(list, a)
		}
	}
	byID := make(map[int32]string, len(spec.Model.Vocab))
	for entry, id := range spec.Model.Vocab {
		byID[id] = entry
	}
	return list, checkAdded(list, spec.Model.Vocab, byID)
}

// findTemplate returns the chat template, "" if there is none. A separate file takes
// precedence over the config, as in transformers.
func findTemplate(all files, inConfig json.RawMessage) (string, error) {
	if raw, ok := all[jinjaFile]; ok {
		if !utf8.Valid(raw) {
			return "", fmt.Errorf("%s: %w: the text is not UTF-8", jinjaFile, ErrFormat)
		}
		return string(raw), nil
	}
	var own struct {
		ChatTemplate json.RawMessage `json:"chat_template"`
	}
	if err := unmarshal(all, templateFile, &own); err != nil {
		return "", err
	}
	raw, name := own.ChatTemplate, templateFile
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		raw, name = inConfig, configFile
	}
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return "", fmt.Errorf("%s: %w: chat_template is neither a string nor a list of named templates", name, ErrFormat)
	}
	for _, item := range list {
		if item.Name == "default" {
			return item.Template, nil
		}
	}
	return "", fmt.Errorf("%s: %w: chat_template has no entry named default", name, ErrFormat)
}
