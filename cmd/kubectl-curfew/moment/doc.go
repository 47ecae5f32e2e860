// Package moment reads instants and spans of time as people type them on a command line: "17:00", "friday 17:00", "tomorrow noon",
// "in 3 hours", "end of may", "2026-12-24", "now..friday".
//
// RFC 3339, dates and times of day are read by the standard library, lengths of time as everywhere in Curfew, and words by the English
// rules of github.com/olebedev/when. What is asked here may be followed by a deletion, and that library looks for times in prose: it
// passes over what it does not know ("friday 17:00 please"), fills in what is missing ("tonight" is 23:00, "a few" are three, "may"
// without a day is the day of today), and carries over what does not exist ("february 30"). So its parser is not used, only single
// rules that say which letters they have read and what for, and a rule counts for nothing unless
//
//   - it has read the words that it was given from the first letter to the last, and each word is given to one rule alone: none is
//     passed over, none is read twice ("may 17:00" is not the 17th);
//   - it has set just the fields that such words name, which are put together here: dates by the calendar, days by the user's time
//     zone, where they are not always 24 hours long;
//   - there is no second reading: "next friday" is refused on a Wednesday, when it may be one of two days, "next tuesday" is not.
//
// Its rules for times of day ("12am" is noon to them), casual times ("this evening") and lengths in months (in November, "in 2 months" is
// ten months ago) are not used at all.
//
// Of the other libraries, tried in November 2026 with the phrases of the tests: github.com/tj/go-naturaldate v1.3.0 ignores unknown
// words by design and does not say which ("soon" is now). github.com/markusmobius/go-dateparser v1.4.7 refuses more than any other, but
// drops some words ("at about 9am"), takes a zone by an ambiguous name ("9am est"), reads 2:30 on a day that has none, knows no "next
// tuesday", and spends half a second and 95 MB at the start of every command on languages that are not asked for.
//
// [Parse] reads an instant, [ParseSpan] a span (A..B) and [ParsePeriod] a period of the calendar, all against an instant whose time
// zone is that of the user.
package moment
