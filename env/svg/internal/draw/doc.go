// Package draw turns SVG code into pictures.
//
// It supports the static, geometric part of SVG 1.1: paths, basic shapes, groups,
// nested documents, symbols and use, transforms, viewBox and
// preserveAspectRatio, fill and stroke with their styles, opacity, linear and
// radial gradients, clip paths, style sheets of simple selectors, and text in one
// built-in typeface. Filters, masks, patterns, markers, embedded pictures,
// scripts and animation are left out: what carries them is drawn without them.
//
// Code is taken as hostile. Nothing outside the text is ever read, entities are
// not expanded, and size, nesting, references and the work of drawing are bounded;
// see Limits. Drawing depends on the text alone.
package draw
