package house

// What breaks a limit of size_test.go, and how large it may be. Nothing may be added or raised
// without a reason beside it: a file or function here is one that nobody has split yet.

// longFiles may have so many lines.
var longFiles = map[string]int{}

// longFunctions may have so many lines.
var longFunctions = map[string]int{}

// unwrapped folders may have so many lines of comments that are too long.
var unwrapped = map[string]int{
	"controller/engine": 4,
}
