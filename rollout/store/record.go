package store

// record is a row of the file.
type record struct {
	Step     int64   `parquet:"step"`
	Env      string  `parquet:"env,dict"`
	Config   string  `parquet:"config,dict"`
	Seed     int64   `parquet:"seed"`
	Group    int64   `parquet:"group"`
	Index    int64   `parquet:"index"`
	MaxTurns int64   `parquet:"max_turns"`
	End      string  `parquet:"end,dict"`
	Error    string  `parquet:"error"`
	Success  bool    `parquet:"success"`
	Attempt  int64   `parquet:"attempt"`
	Metrics  []value `parquet:"metrics,list"`
	Turns    []turn  `parquet:"turns,list"`
	Rows     []row   `parquet:"rows,list"`
}

// value is a number with its name.
type value struct {
	Name  string  `parquet:"name,dict"`
	Value float64 `parquet:"value"`
}

type turn struct {
	Row         int64    `parquet:"row"`
	Observation string   `parquet:"observation"`
	Images      []string `parquet:"images,list"`
	Cut         bool     `parquet:"cut"`
	Response    string   `parquet:"response"`
	Stop        string   `parquet:"stop,dict"`
	Version     int64    `parquet:"policy_version"`
	Parsed      parsed   `parquet:"parsed"`
	Reward      []value  `parquet:"reward,list"`
	Metrics     []value  `parquet:"metrics,list"`
}

type parsed struct {
	Raw           string    `parquet:"raw"`
	FormatCorrect bool      `parquet:"format_correct"`
	Sections      []section `parquet:"sections,list"`
	Actions       []string  `parquet:"actions,list"`
	Dropped       int64     `parquet:"dropped"`
	BoxedAnswer   bool      `parquet:"boxed_answer"`
}

type section struct {
	Name string `parquet:"name,dict"`
	Text string `parquet:"text"`
}

type row struct {
	Tokens   []int32   `parquet:"tokens,list"`
	LogProbs []float32 `parquet:"log_probs,list"`
	Pieces   []piece   `parquet:"pieces,list"`
	Spans    []span    `parquet:"spans,list"`
	Images   []picture `parquet:"images,list"`
	Summary  string    `parquet:"summary"`
}

// piece is a run of consecutive tokens of one kind.
type piece struct {
	Kind   string `parquet:"kind,dict"`
	Length int64  `parquet:"length"`
}

// summaryPiece is the kind of a response that closes a conversation; the others are
// those of package mask.
const summaryPiece = "summary"

type span struct {
	Name   string `parquet:"name,dict"`
	Start  int64  `parquet:"start"`
	Length int64  `parquet:"length"`
}

type picture struct {
	Hash string `parquet:"hash"`
	Name string `parquet:"name"`
}
