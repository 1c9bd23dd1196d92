package mcp

// class sorts the bytes by what they can mean in JSON (RFC 8259).
type class uint8

const (
	// other has no meaning outside of strings.
	other class = iota
	white
	newline
	quotes
	backslash
	slash
	comma
	colon
	opens
	closes
	minus
	plus
	point
	zero
	digit
	bigE
	hexLetter // A-F and c, d, which mean nothing else
	letterA
	letterB
	letterE
	letterF
	letterL
	letterN
	letterR
	letterS
	letterT
	letterU
	classes
)

// step is where in the grammar a line is.
type step uint8

const (
	// halt, in the table, says that the byte needs more than the table (line.take).
	halt step = iota
	// atStart: nothing but white space so far.
	atStart
	// atMember and atValue: a value must come; atMember if it is that of a member of the message.
	atMember
	atValue
	// atFirst: a value or the end of the array that was just opened.
	atFirst
	// atKey: a key must come; atFirstKey: or the end of the object that was just opened.
	atKey
	atFirstKey
	atColon
	// atNext: after a value, a comma or the end of what it is in.
	atNext
	inString
	inEscape
	inHex1
	inHex2
	inHex3
	inHex4
	inMinus
	inZero
	inInt
	inPoint
	inFraction
	inE
	inSign
	inExponent
	inT
	inTr
	inTru
	inF
	inFa
	inFal
	inFals
	inN
	inNu
	inNul
	// inJunk: the line is no JSON; the rest of it is passed over.
	inJunk
	steps
)

// numeric reports whether the step is one where a number may end.
func (s step) numeric() bool { return s == inZero || s == inInt || s == inFraction || s == inExponent }

// classOf is the class of each byte.
var classOf = [256]class{
	' ': white, '\t': white, '\r': white, '\n': newline,
	'"': quotes, '\\': backslash, '/': slash, ',': comma, ':': colon,
	'{': opens, '[': opens, '}': closes, ']': closes,
	'-': minus, '+': plus, '.': point, '0': zero,
	'1': digit, '2': digit, '3': digit, '4': digit, '5': digit, '6': digit, '7': digit, '8': digit, '9': digit,
	'A': hexLetter, 'B': hexLetter, 'C': hexLetter, 'D': hexLetter, 'E': bigE, 'F': hexLetter,
	'a': letterA, 'b': letterB, 'c': hexLetter, 'd': hexLetter, 'e': letterE, 'f': letterF,
	'l': letterL, 'n': letterN, 'r': letterR, 's': letterS, 't': letterT, 'u': letterU,
}

// moves is what a byte leads to where nothing has to be remembered for it: white space, numbers, literals, escapes. All
// else is halt, among it what is an error. The rows are wider than needed because a multiple of 32 is found faster.
var moves = [steps][32]step{
	atStart:    {white: atStart},
	atMember:   {white: atMember},
	atValue:    {white: atValue, minus: inMinus, zero: inZero, digit: inInt, letterT: inT, letterF: inF, letterN: inN},
	atFirst:    {white: atFirst, minus: inMinus, zero: inZero, digit: inInt, letterT: inT, letterF: inF, letterN: inN},
	atKey:      {white: atKey},
	atFirstKey: {white: atFirstKey},
	atColon:    {white: atColon},
	atNext:     {white: atNext},

	inString: {backslash: inEscape},
	inEscape: {
		quotes: inString, backslash: inString, slash: inString, letterB: inString, letterF: inString,
		letterN: inString, letterR: inString, letterT: inString, letterU: inHex1,
	},
	inHex1: {zero: inHex2, digit: inHex2, bigE: inHex2, hexLetter: inHex2, letterA: inHex2, letterB: inHex2, letterE: inHex2, letterF: inHex2},
	inHex2: {zero: inHex3, digit: inHex3, bigE: inHex3, hexLetter: inHex3, letterA: inHex3, letterB: inHex3, letterE: inHex3, letterF: inHex3},
	inHex3: {zero: inHex4, digit: inHex4, bigE: inHex4, hexLetter: inHex4, letterA: inHex4, letterB: inHex4, letterE: inHex4, letterF: inHex4},
	inHex4: {zero: inString, digit: inString, bigE: inString, hexLetter: inString, letterA: inString, letterB: inString, letterE: inString, letterF: inString},

	inMinus:    {zero: inZero, digit: inInt},
	inZero:     {point: inPoint, letterE: inE, bigE: inE},
	inInt:      {zero: inInt, digit: inInt, point: inPoint, letterE: inE, bigE: inE},
	inPoint:    {zero: inFraction, digit: inFraction},
	inFraction: {zero: inFraction, digit: inFraction, letterE: inE, bigE: inE},
	inE:        {zero: inExponent, digit: inExponent, minus: inSign, plus: inSign},
	inSign:     {zero: inExponent, digit: inExponent},
	inExponent: {zero: inExponent, digit: inExponent},

	// The last letter of a literal halts: a value ends with it.
	inT: {letterR: inTr}, inTr: {letterU: inTru},
	inF: {letterA: inFa}, inFa: {letterL: inFal}, inFal: {letterS: inFals},
	inN: {letterU: inNu}, inNu: {letterL: inNul},
}
