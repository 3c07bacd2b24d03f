// Package svg is the task of reproducing a picture with SVG code.
//
// An episode shows the picture of a drawing. Each turn the model writes SVG code,
// which is drawn and compared with the picture; the reward is the format's and a
// weighted sum of scores of likeness, and the next observation shows what was
// drawn, so that the model can correct itself. No episode ends in success: it goes
// on until its caller stops it, and under Episode rules ends with a response
// without valid code.
//
// Rules, parsing and scores are those of VAGEN's legacy environment, with
// pictures by this package's own renderer in place of CairoSVG, which agree but
// for a few levels along edges. The original's DINO and DreamSim scores come from
// models that run elsewhere: give a Scorer, for instance an HTTPScorer.
// Structural is the original's, bit for bit. Perceptual is this package's own
// and needs no model; it is what a default environment pays.
//
// Targets come from a Dataset: a folder of SVG files, a file of JSON lines, or 38
// icons that come with the package.
package svg
