package reward

import (
	"strings"

	"vagen/internal/pytext"
)

// The Next formats, which all environments have used since August 2026. A text whose
// whole form matches is correct. From any other text, sections are salvaged so that
// its actions can run, but its format is not rewarded.

const (
	boxOpen  = "<|begin_of_box|>"
	boxClose = "<|end_of_box|>"
)

func (p *Parser) parseNext(text string) Response {
	r := Response{Raw: text, Sections: make(map[string]string, len(p.format.shape.pieces)+1)}
	switch p.format.name {
	case "free_think":
		p.freeThink(&r)
	case "no_think":
		p.answerOnly(&r)
	case "answer", "eval_mode":
		p.answerAmongText(&r)
	default:
		p.worldModel(&r)
	}
	r.Actions, r.Dropped = p.actions(r.Sections[SectionAnswer])
	return r
}

// worldModel reads perception, reasoning, prediction and answer, in wm_think
// after the model's own thinking.
func (p *Parser) worldModel(r *Response) {
	body := r.Raw
	if p.format.name != "wm" {
		var thoughts string
		if thoughts, body = afterThinking(r.Raw, perceptionTag); thoughts != "" {
			r.Sections[SectionNative] = thoughts
		}
	}
	var got pieces
	if r.FormatCorrect = p.format.shape.covers(body, &got); r.FormatCorrect {
		for i, name := range p.format.shape.pieces {
			r.Sections[name] = pytext.Strip(got[i])
		}
		return
	}
	for _, name := range p.format.shape.pieces {
		r.Sections[name] = recoverSection(r.Raw, name)
	}
}

// freeThink reads thoughts and answer. The opening tag of the thoughts may be missing,
// because some chat templates write it.
func (p *Parser) freeThink(r *Response) {
	thoughts, body := afterThinking(r.Raw, answerTag)
	var got pieces
	if answerShape.covers(body, &got) && strings.Contains(r.Raw, thinkClose) {
		r.FormatCorrect = true
		r.Sections[SectionAnswer] = pytext.Strip(got[0])
	} else {
		// Answers drafted within the thoughts are not actions: read only the body.
		answer := recoverSection(body, SectionAnswer)
		if answer == "" && p.box {
			answer, r.BoxedAnswer = boxed(body)
		}
		r.Sections[SectionAnswer] = answer
		if thoughts == "" {
			thoughts = recoverSection(r.Raw, SectionReasoning)
		}
	}
	r.Sections[SectionThink], r.Sections[SectionReasoning] = thoughts, thoughts
}

var answerShape = blocks(SectionAnswer)

// answerOnly reads an answer without anything around it.
func (p *Parser) answerOnly(r *Response) {
	var got pieces
	if r.FormatCorrect = answerShape.covers(r.Raw, &got); r.FormatCorrect {
		r.Sections[SectionAnswer] = pytext.Strip(got[0])
		return
	}
	p.salvageAnswer(r)
}

// answerAmongText reads an answer at the end of the text, after any other text.
func (p *Parser) answerAmongText(r *Response) {
	before, rest, found := strings.Cut(r.Raw, "<"+answerTag+">")
	answer, closed := strings.CutSuffix(pytext.Strip(rest), "</"+answerTag+">")
	if r.FormatCorrect = found && closed; r.FormatCorrect {
		r.Sections[SectionReasoning], r.Sections[SectionAnswer] = pytext.Strip(before), pytext.Strip(answer)
		return
	}
	p.salvageAnswer(r)
}

func (p *Parser) salvageAnswer(r *Response) {
	r.Sections[SectionReasoning] = pytext.Strip(r.Raw)
	r.Sections[SectionAnswer] = recoverSection(r.Raw, SectionAnswer)
}

// afterThinking splits a text into the model's own thinking and what follows it.
// The thinking ends with the last closing tag, if an opening tag of the given name
// follows it: engines that limit thinking may close it before the model does.
// Otherwise the whole text is the body.
func afterThinking(text, tag string) (thoughts, body string) {
	end := strings.LastIndex(text, thinkClose)
	if end < 0 || !strings.Contains(text[end+len(thinkClose):], "<"+tag+">") {
		return "", text
	}
	thoughts = text[:end]
	if inner, ok := strings.CutPrefix(text[skipSpace(text, 0):end], thinkOpen); ok {
		thoughts = inner
	}
	return pytext.Strip(thoughts), text[end+len(thinkClose):]
}

// boxed returns the content of the first answer box.
func boxed(text string) (string, bool) {
	_, rest, ok := strings.Cut(text, boxOpen)
	if !ok {
		return "", false
	}
	content, _, ok := strings.Cut(rest, boxClose)
	if !ok {
		return "", false
	}
	return pytext.Strip(content), true
}
