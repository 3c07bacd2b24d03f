package jinja

// Statements and expressions. Statements write output to the state; expressions return
// a value.
type (
	stmt interface{ run(*scope) control }
	expr interface{ eval(*scope) any }
)

// control is a statement's effect on the loop around it.
type control uint8

const (
	proceed control = iota
	breakLoop
	continueLoop
)

type (
	dataStmt   struct{ text string }
	outputStmt struct {
		value expr
		line  int
	}
	ifStmt struct {
		cond        expr
		then, other []stmt
	}
	forStmt struct {
		names       []string
		list, where expr // where may be nil
		body, other []stmt
		line        int
	}
	setStmt struct {
		name  string
		attr  string // of the namespace called name, or ""
		value expr   // nil when body is captured
		body  []stmt
		line  int
	}
	macroStmt struct {
		name     string
		params   []string
		defaults map[string]expr
		body     []stmt
	}
	blockStmt   struct{ body []stmt } // {% generation %}: runs its body
	controlStmt struct{ what control }
)

type (
	litExpr  struct{ value any }
	nameExpr struct{ name string }
	listExpr struct{ items []expr }
	dictExpr struct{ keys, values []expr }
	attrExpr struct { // a.name
		of   expr
		name string
		line int
	}
	indexExpr struct { // a[i]
		of, at expr
		line   int
	}
	sliceExpr struct { // a[from:to:step], each may be nil
		of, from, to, step expr
		line               int
	}
	callExpr struct {
		fn   expr
		args []expr
		kw   map[string]expr
		line int
	}
	filterExpr struct {
		of   expr
		name string
		args []expr
		kw   map[string]expr
		line int
	}
	testExpr struct {
		of     expr
		name   string
		args   []expr
		negate bool
		line   int
	}
	unaryExpr struct {
		op   string
		of   expr
		line int
	}
	binaryExpr struct {
		op   string
		a, b expr
		line int
	}
	compareExpr struct { // a < b < c
		first expr
		ops   []string
		rest  []expr
		line  int
	}
	condExpr struct{ cond, then, other expr } // other may be nil
)
