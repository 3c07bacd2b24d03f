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
	lower    bool // actions are lower-cased
	rebuild  []string
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
	pieceBefore   = "before" // free text of free_wm before the answer
	pieceAfter    = "after"  // and after it
)

func buildFormats() []format {
	var all []format
	legacy := func(name string, rich bool, whole bool, sh shape) {
		rebuild := []string{SectionThink, SectionAnswer}
		if name == "no_think" {
			rebuild = rebuild[1:]
		}
		all = append(all, format{dialect: Legacy, name: name, shape: sh, strict: true, whole: whole, rich: rich,
			rebuild: rebuild})
	}
	legacy("no_think", false, true, blocks(SectionAnswer))
	legacy("free_think", false, true, blocks(SectionThink, SectionAnswer))
	for name, inner := range map[string][]string{
		"grounding":               {SectionObservation, SectionReasoning},
		"worldmodeling":           {SectionReasoning, SectionPrediction},
		"grounding_worldmodeling": {SectionObservation, SectionReasoning, SectionPrediction},
	} {
		for _, suffix := range []string{"", "_structured", "_symbolic"} {
			legacy(name+suffix, true, false, thinking(inner...))
		}
	}
	// The parser of the legacy SVG service: found anywhere, image marks kept.
	all = append(all, format{dialect: Legacy, name: "raw_response", shape: blocks(SectionThink, SectionAnswer),
		rebuild: []string{SectionThink, SectionAnswer}})

	wm := []string{SectionObservation, SectionThink, SectionAnswer, SectionPrediction}
	lite := func(d Dialect, name string, sh shape, lowered bool, rebuild ...string) {
		all = append(all, format{dialect: d, name: name, shape: sh, lower: lowered, rebuild: rebuild})
	}
	lite(Lite, "free_think", blocks(SectionThink, SectionAnswer), true, SectionThink, SectionAnswer)
	lite(Lite, "answer", blocks(SectionAnswer), true, SectionAnswer)
	lite(Lite, "wm", blocks(wm...), true, wm...)
	lite(Lite, "free_wm", shape{
		anchors: [][]string{{"<observation>"}, {"</observation>"}, {"<answer>"}, {"</answer>"}, {"<prediction>"},
			{"</prediction>"}},
		pieces: []string{SectionObservation, pieceBefore, SectionAnswer, pieceAfter, SectionPrediction},
	}, true, SectionObservation, SectionAnswer, SectionPrediction)

	lite(LiteNavigation, "free_think", acting(blocks(SectionThink, SectionAnswer)), true, SectionThink, SectionAnswer)
	lite(LiteNavigation, "wm", acting(blocks(wm...)), true, wm...)
	lite(LiteNavigation, "eval_mode", acting(blocks(SectionAnswer)), true, SectionAnswer)
	all = append(all, format{dialect: LiteNavigation, name: "no_think", shape: acting(blocks(SectionAnswer)),
		strict: true, whole: true, anchored: true, lower: true, rebuild: []string{SectionAnswer}})

	lite(LitePrimitiveSkill, "free_think", blocks(SectionThink, SectionAnswer), false, SectionThink, SectionAnswer)
	lite(LitePrimitiveSkill, "wm", blocks(wm...), false, wm...)

	next := func(name string, sh shape, rebuild ...string) {
		all = append(all, format{dialect: Next, name: name, shape: sh, lower: true, rebuild: rebuild})
	}
	tagged := []string{SectionObservation, SectionReasoning, SectionPrediction, SectionAnswer}
	for _, name := range []string{"wm", "wm_think", "free_wm"} { // free_wm is the older name of wm_think
		next(name, perceiving(blocks(tagged...)), tagged...)
	}
	next("free_think", blocks(SectionThink, SectionAnswer), SectionThink, SectionAnswer)
	for _, name := range []string{"answer", "eval_mode", "no_think"} {
		next(name, blocks(SectionAnswer), SectionAnswer)
	}

	for _, d := range Dialects() {
		sh := thinking(SectionObservation, SectionPrediction)
		if d == LiteNavigation {
			sh = acting(sh)
		}
		all = append(all, format{dialect: d, name: ObservePredict, shape: sh, strict: true, rich: true, answer: true,
			lower: d != Legacy && d != LitePrimitiveSkill, rebuild: []string{SectionThink, SectionAnswer}})
	}
	slices.SortFunc(all, func(a, b format) int {
		if c := strings.Compare(string(a.dialect), string(b.dialect)); c != 0 {
			return c
		}
		return strings.Compare(a.name, b.name)
	})
	return all
}

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

// acting is the shape with <action> where others write <answer>.
func acting(sh shape) shape {
	for _, anchor := range sh.anchors {
		for i, tag := range anchor {
			anchor[i] = strings.Replace(tag, answerTag, actionTag, 1)
		}
	}
	return sh
}

// perceiving is the shape with <perception> where others write <observation>.
func perceiving(sh shape) shape {
	for _, anchor := range sh.anchors {
		for i, tag := range anchor {
			anchor[i] = strings.Replace(tag, SectionObservation, perceptionTag, 1)
		}
	}
	return sh
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
