package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// fileSpec is tokenizer.json restricted to the settings that affect ids.
type fileSpec struct {
	AddedTokens  []*added  `json:"added_tokens"`
	Normalizer   component `json:"normalizer"`
	PreTokenizer component `json:"pre_tokenizer"`
	Decoder      component `json:"decoder"`
	Model        modelSpec `json:"model"`
}

type modelSpec struct {
	Type                    string           `json:"type"`
	Dropout                 *float64         `json:"dropout"`
	UnkToken                *string          `json:"unk_token"`
	ContinuingSubwordPrefix *string          `json:"continuing_subword_prefix"`
	EndOfWordSuffix         *string          `json:"end_of_word_suffix"`
	FuseUnk                 bool             `json:"fuse_unk"`
	ByteFallback            bool             `json:"byte_fallback"`
	IgnoreMerges            bool             `json:"ignore_merges"`
	Vocab                   map[string]int32 `json:"vocab"`
	Merges                  []mergePair      `json:"merges"`
}

// mergePair is "a b" in old files and ["a", "b"] in new ones.
type mergePair [2]string

func (p *mergePair) UnmarshalJSON(raw []byte) error {
	if len(raw) > 0 && raw[0] == '[' {
		var list []string
		if err := json.Unmarshal(raw, &list); err != nil {
			return err
		}
		if len(list) != 2 {
			return fmt.Errorf("merge of %d parts, want 2", len(list))
		}
		*p = mergePair(list)
		return nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	a, b, ok := strings.Cut(text, " ")
	if !ok || a == "" || b == "" || strings.Contains(b, " ") {
		return fmt.Errorf("merge %q, want two parts with a space between", text)
	}
	*p = mergePair{a, b}
	return nil
}

func newBPE(m modelSpec) (*bpe, error) {
	switch {
	case m.Type != "BPE" && m.Type != "":
		return nil, fmt.Errorf("%w: model type %q, want BPE", ErrUnsupported, m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, fmt.Errorf("%w: model.dropout %v, want none", ErrUnsupported, *m.Dropout)
	case m.ContinuingSubwordPrefix != nil && *m.ContinuingSubwordPrefix != "":
		return nil, fmt.Errorf("%w: model.continuing_subword_prefix %q, want none", ErrUnsupported,
			*m.ContinuingSubwordPrefix)
	case m.EndOfWordSuffix != nil && *m.EndOfWordSuffix != "":
		return nil, fmt.Errorf("%w: model.end_of_word_suffix %q, want none", ErrUnsupported, *m.EndOfWordSuffix)
	case len(m.Vocab) == 0:
		return nil, fmt.Errorf("%w: model.vocab is empty", ErrFormat)
	}
	b := &bpe{vocab: make(map[string]int32, len(m.Vocab)), merges: make(map[uint64]merge, len(m.Merges)),
		ignoreMerges: m.IgnoreMerges}
	ids := make(map[int32]string, len(m.Vocab))
	for entry, id := range m.Vocab {
		if other, ok := ids[id]; ok || id < 0 || id >= maxID {
			return nil, fmt.Errorf("%w: model.vocab: id %d of %q is out of range or also the id of %q", ErrFormat, id, entry,
				other)
		}
		ids[id] = entry
		text := toBytes(entry)
		if _, ok := b.vocab[text]; !ok || text != entry { // text is never encoded as an entry outside the alphabet
			b.vocab[text] = id
		}
	}
	for v := range b.bytes {
		b.bytes[v] = -1
		if id, ok := m.Vocab[string(byteToRune[v])]; ok {
			b.bytes[v] = id
		}
	}
	for i, p := range m.Merges {
		left, okL := m.Vocab[p[0]]
		right, okR := m.Vocab[p[1]]
		joint, okJ := m.Vocab[p[0]+p[1]]
		if !okL || !okR || !okJ {
			return nil, fmt.Errorf("%w: model.merges[%d]: %q and %q, or their concatenation, are not in the vocabulary",
				ErrFormat, i, p[0], p[1])
		}
		// Of equal pairs the last one counts, as in Hugging Face's tokenizers.
		b.merges[pair(left, right)] = merge{int32(i), joint}
	}
	return b, nil
}

// maxID bounds ids, so that a file cannot ask for an enormous table.
const maxID = 1 << 24

// component is a normalizer, a pre-tokenizer or a decoder; the zero value is none. Sequences are decoded with
// what they contain, in time linear in the file, however deep they are.
type component struct {
	Type          string      `json:"type"`
	Normalizers   []component `json:"normalizers"`
	PreTokenizers []component `json:"pretokenizers"`
	Pattern       struct {
		Regex *string `json:"Regex"`
	} `json:"pattern"`
	Behavior         string `json:"behavior"`
	Invert           bool   `json:"invert"`
	IndividualDigits bool   `json:"individual_digits"`
	AddPrefixSpace   bool   `json:"add_prefix_space"`
	UseRegex         *bool  `json:"use_regex"`
}

// newSteps reads the pre-tokenizer.
func newSteps(c component) ([]step, error) {
	switch c.Type {
	case "":
		return nil, nil
	case "Sequence":
		var all []step
		for _, part := range c.PreTokenizers {
			steps, err := newSteps(part)
			if err != nil {
				return nil, err
			}
			all = append(all, steps...)
		}
		return all, nil
	case "Split":
		if c.Pattern.Regex == nil {
			return nil, fmt.Errorf("%w: pre_tokenizer Split without a regular expression", ErrUnsupported)
		}
		scan, ok := patterns[*c.Pattern.Regex]
		if !ok {
			return nil, fmt.Errorf("%w: pre_tokenizer Split by the pattern %q", ErrUnsupported, *c.Pattern.Regex)
		}
		// The known patterns match every character, so these two mean the same.
		if !(c.Behavior == "Isolated" && !c.Invert || c.Behavior == "Removed" && c.Invert) {
			return nil, fmt.Errorf("%w: pre_tokenizer Split with behavior %q, invert %v", ErrUnsupported, c.Behavior, c.Invert)
		}
		return []step{{scan: scan}}, nil
	case "Digits":
		return []step{{scan: scanDigits(c.IndividualDigits)}}, nil
	case "ByteLevel":
		var steps []step
		if c.AddPrefixSpace {
			steps = append(steps, step{prefix: true})
		}
		if c.UseRegex == nil || *c.UseRegex {
			steps = append(steps, step{scan: scanGPT2})
		}
		return steps, nil
	}
	return nil, fmt.Errorf("%w: pre_tokenizer %q", ErrUnsupported, c.Type)
}

// hasByteLevel reports whether a pre-tokenizer is ByteLevel or a sequence with one.
func hasByteLevel(c component) bool {
	return c.Type == "ByteLevel" || slices.ContainsFunc(c.PreTokenizers, hasByteLevel)
}

// newNormalizer reports whether text must be NFC-normalised.
func newNormalizer(c component) (nfc bool, err error) {
	switch c.Type {
	case "":
		return false, nil
	case "NFC":
		return true, nil
	case "Sequence":
		for _, part := range c.Normalizers {
			one, err := newNormalizer(part)
			if err != nil {
				return false, err
			}
			nfc = nfc || one
		}
		return nfc, nil
	}
	return false, fmt.Errorf("%w: normalizer %q", ErrUnsupported, c.Type)
}

// checkDecoder rejects all decoders except ByteLevel.
func checkDecoder(c component) error {
	if c.Type != "ByteLevel" {
		return fmt.Errorf("%w: decoder %q, want ByteLevel", ErrUnsupported, c.Type)
	}
	return nil
}
