package tokenizer

import (
	"strings"
	"testing"
)

const prose = "The agent stands at row 2, column 3; the box is to the left of the target. " +
	"<think>I should walk around it, don't push yet.</think><answer>Up,Left,Left</answer>\n"

func BenchmarkEncode(b *testing.B) {
	tok, _ := loadRecorded(b)
	for name, text := range map[string]string{
		"prose":    strings.Repeat(prose, 20),
		"unseen":   strings.Repeat("机器人在湖面上。", 200),
		"onePiece": strings.Repeat("abcdefghij", 10_000),
	} {
		b.Run(name, func(b *testing.B) {
			var ids []int32
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if ids, err = tok.Append(ids[:0], text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	tok, _ := loadRecorded(b)
	text := strings.Repeat(prose, 20)
	ids, err := tok.Encode(text)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		tok.Decode(ids, KeepSpecial)
	}
}

func BenchmarkLoad(b *testing.B) {
	tok, _ := loadRecorded(b)
	b.SetBytes(int64(len(tok.files[tokenizerFile])))
	for b.Loop() {
		if _, err := parse(tok.files); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkChat(b *testing.B) {
	tok, _ := loadRecorded(b)
	b.Run("derive", func(b *testing.B) {
		for b.Loop() {
			if _, err := tok.Chat(nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("continue", func(b *testing.B) {
		chat, err := tok.Chat(nil)
		if err != nil {
			b.Fatal(err)
		}
		next := []Message{{RoleUser, []Part{{Text: "Now: "}, {Image: true}, {Text: prose}}}}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := chat.Continue(next, EndedTurn); err != nil {
				b.Fatal(err)
			}
		}
	})
}
