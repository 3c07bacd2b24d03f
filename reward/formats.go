package reward

import (
	"slices"
	"strings"
)

// Dialect is a family of parsing rules, named after the original system that has them.
type Dialect string

// The dialects. In Legacy and Next, FormatCorrect means that the whole text has the
// shape; in the others, that the shape is found anywhere in it.
const (
	Legacy             Dialect = "legacy"               // all environments of the legacy branch
	Lite               Dialect = "lite"                 // FrozenLake and Sokoban of the main branch
	LiteNavigation     Dialect = "lite_navigation"      // Navigation of the main branch: <action> tags
	LitePrimitiveSkill Dialect = "lite_primitive_skill" // PrimitiveSkill of the main branch: case kept
	Next               Dialect = "next"                 // all environments since August 2026: perception tags
)

// ObservePredict is an additional format of this library, available in every dialect:
//
//	<think><observation>O</observation><prediction>P</prediction></think><answer>A</answer>
//
// It is grounding_worldmodeling without free reasoning, short enough for models
// of a few hundred thousand parameters. FormatCorrect means that the whole text has
// the shape; actions come from the first answer block, wherever it is.
const ObservePredict = "observe_predict"

// format defines how one format of one dialect is parsed.
type format struct {
	dialect  Dialect
	name     string
	shape    shape
	strict   bool // FormatCorrect means that the whole text has the shape
	whole    bool // sections and actions exist only if the whole text has the shape
	anchored bool // sections are those of the whole text, not of the first match in it
	rich     bool // think is the text of the sections inside the think block
	answer   bool // actions come from the first answer block when the shape is not found
}

// The formats of every dialect. Built once; the tables are never changed.
var formats = buildFormats()

const (
	thinkOpen  = "<think>"
	thinkClose = "</think>"
	answerTag  = "answer"
	actionTag  = "action"
	// The Next formats use other names than <think>, because several model families
	// reserve it as a token and cannot write it as text.
	perceptionTag = "perception"
	imageMark     = "<image>"
	// Free text of free_wm before and after the answer. No section can have these names.
	pieceBefore = "(before)"
	pieceAfter  = "(after)"
)

func buildFormats() []format {
	var all []format
	add := func(d Dialect, sh shape, f format, names ...string) {
		f.dialect, f.shape = d, sh
		for _, f.name = range names {
			all = append(all, f)
		}
	}
	answer, free := blocks(SectionAnswer), blocks(SectionThink, SectionAnswer)
	wm := blocks(SectionObservation, SectionThink, SectionAnswer, SectionPrediction)
	acting := func(sh shape) shape { return sh.renamed(answerTag, actionTag) }

	add(Legacy, answer, format{strict: true, whole: true}, "no_think")
	add(Legacy, free, format{strict: true, whole: true}, "free_think")
	for name, inner := range map[string][]string{
		"grounding":               {SectionObservation, SectionReasoning},
		"worldmodeling":           {SectionReasoning, SectionPrediction},
		"grounding_worldmodeling": {SectionObservation, SectionReasoning, SectionPrediction},
	} {
		add(Legacy, thinking(inner...), format{strict: true, rich: true}, name, name+"_structured", name+"_symbolic")
	}
	// The parser of the legacy SVG service: found anywhere, image marks kept.
	add(Legacy, free, format{}, "raw_response")

	add(Lite, free, format{}, "free_think")
	add(Lite, answer, format{}, "answer")
	add(Lite, wm, format{}, "wm")
	add(Lite, shape{
		anchors: [][]string{{"<observation>"}, {"</observation>"}, {"<answer>"}, {"</answer>"}, {"<prediction>"},
			{"</prediction>"}},
		pieces: []string{SectionObservation, pieceBefore, SectionAnswer, pieceAfter, SectionPrediction},
	}, format{}, "free_wm")

	add(LiteNavigation, acting(free), format{}, "free_think")
	add(LiteNavigation, acting(wm), format{}, "wm")
	add(LiteNavigation, acting(answer), format{}, "eval_mode")
	add(LiteNavigation, acting(answer), format{strict: true, whole: true, anchored: true}, "no_think")

	add(LitePrimitiveSkill, free, format{}, "free_think")
	add(LitePrimitiveSkill, wm, format{}, "wm")

	// free_wm is the older name of wm_think.
	add(Next, blocks(SectionObservation, SectionReasoning, SectionPrediction, SectionAnswer).renamed(SectionObservation,
		perceptionTag), format{}, "wm", "wm_think", "free_wm")
	add(Next, free, format{}, "free_think")
	add(Next, answer, format{}, "answer", "eval_mode", "no_think")

	for _, d := range Dialects() {
		sh := thinking(SectionObservation, SectionPrediction)
		if d == LiteNavigation {
			sh = acting(sh)
		}
		add(d, sh, format{strict: true, rich: true, answer: true}, ObservePredict)
	}
	slices.SortFunc(all, func(a, b format) int {
		if c := strings.Compare(string(a.dialect), string(b.dialect)); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return all
}

// lowers reports whether a dialect lower-cases actions.
func (d Dialect) lowers() bool { return d != Legacy && d != LitePrimitiveSkill }

// blocks is the shape of one tagged block after another.
func blocks(sections ...string) shape {
	sh := shape{anchors: [][]string{{"<" + sections[0] + ">"}}, pieces: sections}
	for i, name := range sections {
		anchor := []string{"</" + name + ">"}
		if i+1 < len(sections) {
			anchor = append(anchor, "<"+sections[i+1]+">")
		}
		sh.anchors = append(sh.anchors, anchor)
	}
	return sh
}

// thinking is the shape of blocks inside a think block, then an answer block.
func thinking(inner ...string) shape {
	sh := blocks(append(slices.Clone(inner), SectionAnswer)...)
	sh.anchors[0] = []string{thinkOpen, sh.anchors[0][0]}
	n := len(inner)
	sh.anchors[n] = slices.Insert(sh.anchors[n], 1, thinkClose)
	return sh
}

// renamed is the shape with another tag in the place of one.
func (sh shape) renamed(from, to string) shape {
	anchors := make([][]string, len(sh.anchors))
	for i, anchor := range sh.anchors {
		for _, tag := range anchor {
			anchors[i] = append(anchors[i], strings.Replace(tag, from, to, 1))
		}
	}
	return shape{anchors, sh.pieces}
}

// Dialects returns the names of all dialects, sorted.
func Dialects() []Dialect {
	return []Dialect{Legacy, Lite, LiteNavigation, LitePrimitiveSkill, Next}
}

// Formats returns the names of a dialect's formats, sorted; none for a dialect
// that does not exist.
func Formats(d Dialect) []string {
	var names []string
	for _, f := range formats {
		if f.dialect == d {
			names = append(names, f.name)
		}
	}
	return names
}
