package expression

// The slots for [TestLintTakesNoSlotOfAdmission].
var (
	Compiling = compiling
	Linting   = linting
)
