package navigation

import (
	"hash/fnv"
	"image/color"
	"strings"
	"unicode"

	"vagen/env/internal/rays"
)

// Short names for the forms of parts.
const (
	box   = rays.Box
	tube  = rays.Tube
	globe = rays.Globe
)

// part is a piece of an object: a form in a box, given in fractions of the
// object's width, height and depth, with an ink.
type part struct {
	form       rays.Form
	x0, y0, z0 float64
	x1, y1, z1 float64
	ink        ink
}

// ink is a colour: the object's own, or one of the palette.
type ink uint8

const (
	own ink = iota
	ownDark
	white
	cream
	silver
	gray
	dark
	black
	wood
	oak
	glass
	leaf
	soil
	red
	yellow
	blue
)

var palette = map[ink]color.RGBA{
	white: {245, 245, 242, 255}, cream: {236, 220, 190, 255}, silver: {196, 202, 208, 255}, gray: {128, 132, 138, 255},
	dark: {62, 66, 74, 255}, black: {24, 25, 29, 255}, wood: {126, 84, 48, 255}, oak: {186, 142, 92, 255}, glass: {150, 196, 220, 255},
	leaf: {62, 142, 62, 255}, soil: {92, 64, 44, 255}, red: {206, 44, 40, 255}, yellow: {246, 206, 70, 255}, blue: {44, 96, 190, 255},
}

// tints are the colours of objects.
var tints = map[string]color.RGBA{
	"red": {204, 42, 40, 255}, "green": {46, 150, 70, 255}, "blue": {44, 98, 200, 255}, "yellow": {244, 204, 60, 255},
	"orange": {240, 134, 36, 255}, "purple": {134, 66, 178, 255}, "pink": {236, 122, 166, 255}, "white": {244, 244, 240, 255},
	"black": {34, 34, 40, 255}, "brown": {130, 82, 46, 255}, "gray": {140, 144, 150, 255}, "beige": {226, 206, 170, 255},
}

// room is a set of kinds of rooms.
type room uint8

const (
	kitchen room = 1 << iota
	living
	bedroom
	bathroom
	anywhere = kitchen | living | bedroom | bathroom
)

var roomNames = map[room]string{kitchen: "kitchen", living: "living room", bedroom: "bedroom", bathroom: "bathroom"}

// place is where an object can be placed.
type place uint8

const (
	onTop  place = iota // of furniture
	onWall              // on the floor with its back to a wall
	onFloor
)

// kind describes a type of objects as AI2-THOR names them.
type kind struct {
	name    string
	w, h, d float64 // metres
	place   place
	rooms   room
	top     float64 // height of a surface for other objects, 0 without one
	tints   string  // possible colours
	purpose string  // completes "something …"
	look    string  // completes "the <colour> …"
	parts   []part
}

var catalog = []kind{
	// Furniture.
	{name: "CounterTop", w: 1.4, h: 0.9, d: 0.6, place: onWall, rooms: kitchen, top: 0.9, tints: "white beige gray",
		purpose: "to prepare food on", look: "long block with a dark top",
		parts: []part{{box, 0, 0, 0, 1, 0.95, 0.97, own}, {box, 0, 0.95, 0, 1, 1, 1, dark}, {box, 0.49, 0.05, 0.97, 0.51, 0.9, 0.98, gray}}},
	{name: "DiningTable", w: 1.2, h: 0.75, d: 0.8, place: onFloor, rooms: kitchen | living, top: 0.75, tints: "brown beige white",
		purpose: "to eat at", look: "flat top on four legs",
		parts: []part{{box, 0, 0.93, 0, 1, 1, 1, own}, {box, 0.03, 0, 0.04, 0.1, 0.93, 0.14, ownDark}, {box, 0.9, 0, 0.04, 0.97, 0.93, 0.14, ownDark},
			{box, 0.03, 0, 0.86, 0.1, 0.93, 0.96, ownDark}, {box, 0.9, 0, 0.86, 0.97, 0.93, 0.96, ownDark}}},
	{name: "CoffeeTable", w: 0.9, h: 0.42, d: 0.5, place: onFloor, rooms: living, top: 0.42, tints: "brown black white",
		purpose: "to put drinks and magazines on", look: "low flat top on legs",
		parts: []part{{box, 0, 0.88, 0, 1, 1, 1, own}, {box, 0.04, 0, 0.06, 0.12, 0.88, 0.2, ownDark}, {box, 0.88, 0, 0.06, 0.96, 0.88, 0.2, ownDark},
			{box, 0.04, 0, 0.8, 0.12, 0.88, 0.94, ownDark}, {box, 0.88, 0, 0.8, 0.96, 0.88, 0.94, ownDark}}},
	{name: "Desk", w: 1.2, h: 0.74, d: 0.6, place: onWall, rooms: bedroom | living, top: 0.74, tints: "brown white black",
		purpose: "to work and write at", look: "top on two side boards",
		parts: []part{{box, 0, 0.93, 0, 1, 1, 1, own}, {box, 0, 0, 0, 0.05, 0.93, 1, ownDark}, {box, 0.7, 0, 0, 1, 0.93, 1, ownDark}, {box, 0.74, 0.6, 1, 0.96, 0.63, 1.01, silver}}},
	{name: "Dresser", w: 1.0, h: 0.95, d: 0.45, place: onWall, rooms: bedroom, top: 0.95, tints: "brown white beige",
		purpose: "with drawers for clothes", look: "block with three rows of drawers",
		parts: []part{{box, 0, 0, 0, 1, 1, 0.97, own}, {box, 0.04, 0.06, 0.97, 0.96, 0.31, 1, ownDark}, {box, 0.04, 0.37, 0.97, 0.96, 0.62, 1, ownDark}, {box, 0.04, 0.68, 0.97, 0.96, 0.93, 1, ownDark}}},
	{name: "SideTable", w: 0.45, h: 0.55, d: 0.45, place: onWall, rooms: living | bedroom, top: 0.55, tints: "brown white black",
		purpose: "to put a lamp on", look: "small round top on one foot",
		parts: []part{{tube, 0, 0.92, 0, 1, 1, 1, own}, {tube, 0.42, 0.06, 0.42, 0.58, 0.92, 0.58, ownDark}, {tube, 0.2, 0, 0.2, 0.8, 0.06, 0.8, ownDark}}},
	{name: "Shelf", w: 0.9, h: 1.7, d: 0.32, place: onWall, rooms: living | bedroom, tints: "brown white black",
		purpose: "to keep books in", look: "tall frame with rows of books",
		parts: []part{{box, 0, 0, 0, 1, 1, 0.7, ownDark}, {box, 0, 0, 0, 0.05, 1, 1, own}, {box, 0.95, 0, 0, 1, 1, 1, own}, {box, 0, 0.97, 0, 1, 1, 1, own}, {box, 0, 0.64, 0, 1, 0.67, 1, own}, {box, 0, 0.32, 0, 1, 0.35, 1, own}, {box, 0, 0, 0, 1, 0.03, 1, own},
			{box, 0.08, 0.67, 0.3, 0.3, 0.88, 0.9, red}, {box, 0.32, 0.67, 0.3, 0.5, 0.92, 0.9, blue}, {box, 0.52, 0.67, 0.3, 0.72, 0.86, 0.9, leaf}, {box, 0.2, 0.35, 0.3, 0.55, 0.56, 0.9, yellow}, {box, 0.58, 0.35, 0.3, 0.9, 0.58, 0.9, blue}, {box, 0.1, 0.03, 0.3, 0.6, 0.25, 0.9, cream}}},
	{name: "TVStand", w: 1.3, h: 0.5, d: 0.42, place: onWall, rooms: living | bedroom, top: 0.5, tints: "black brown white",
		purpose: "to put a television on", look: "low wide cabinet",
		parts: []part{{box, 0, 0.08, 0, 1, 1, 1, own}, {box, 0.05, 0, 0.1, 0.12, 0.08, 0.9, ownDark}, {box, 0.88, 0, 0.1, 0.95, 0.08, 0.9, ownDark}, {box, 0.495, 0.12, 1, 0.505, 0.96, 1.01, ownDark}}},
	{name: "SinkCabinet", w: 0.9, h: 0.82, d: 0.5, place: onWall, rooms: bathroom, top: 0.82, tints: "white gray beige",
		purpose: "to keep towels and soap in", look: "block with a white top",
		parts: []part{{box, 0, 0, 0, 1, 0.94, 0.96, own}, {box, 0, 0.94, 0, 1, 1, 1, white}, {box, 0.49, 0.05, 0.96, 0.51, 0.9, 0.98, gray}}},
	{name: "Sofa", w: 1.8, h: 0.8, d: 0.85, place: onWall, rooms: living, tints: "blue gray green red beige",
		purpose: "to sit on with friends", look: "wide soft seat with a back and two arms",
		parts: []part{{box, 0, 0.08, 0, 1, 0.52, 1, own}, {box, 0, 0.52, 0, 1, 1, 0.28, own}, {box, 0, 0.52, 0.28, 0.12, 0.72, 1, ownDark}, {box, 0.88, 0.52, 0.28, 1, 0.72, 1, ownDark}, {box, 0.497, 0.2, 0.28, 0.503, 0.53, 1, ownDark}}},
	{name: "ArmChair", w: 0.8, h: 0.85, d: 0.8, place: onFloor, rooms: living | bedroom, tints: "red green purple brown",
		purpose: "to sit in and read", look: "soft seat for one with a back and two arms",
		parts: []part{{box, 0, 0.08, 0, 1, 0.5, 1, own}, {box, 0, 0.5, 0, 1, 1, 0.25, own}, {box, 0, 0.5, 0.25, 0.18, 0.72, 1, ownDark}, {box, 0.82, 0.5, 0.25, 1, 0.72, 1, ownDark}}},
	{name: "Bed", w: 1.4, h: 0.95, d: 2.0, place: onWall, rooms: bedroom, tints: "blue white purple beige",
		purpose: "to sleep in", look: "large blanket with two pillows before a board",
		parts: []part{{box, 0, 0, 0.03, 1, 0.3, 1, wood}, {box, 0.02, 0.3, 0.03, 0.98, 0.55, 1, own}, {box, 0, 0, 0, 1, 1, 0.04, wood}, {box, 0.1, 0.55, 0.06, 0.44, 0.66, 0.26, white}, {box, 0.56, 0.55, 0.06, 0.9, 0.66, 0.26, white}}},
	{name: "Chair", w: 0.45, h: 0.9, d: 0.45, place: onFloor, rooms: kitchen | living | bedroom, tints: "brown red white black",
		purpose: "to sit on at a table", look: "seat on four legs with a back",
		parts: []part{{box, 0, 0.46, 0, 1, 0.52, 1, own}, {box, 0, 0.52, 0, 1, 1, 0.1, own}, {box, 0, 0, 0, 0.1, 0.46, 0.1, ownDark}, {box, 0.9, 0, 0, 1, 0.46, 0.1, ownDark}, {box, 0, 0, 0.9, 0.1, 0.46, 1, ownDark}, {box, 0.9, 0, 0.9, 1, 0.46, 1, ownDark}}},
	{name: "Fridge", w: 0.75, h: 1.8, d: 0.7, place: onWall, rooms: kitchen, tints: "white gray",
		purpose: "to keep food cold in", look: "tall block with two doors and handles",
		parts: []part{{box, 0, 0, 0, 1, 1, 0.97, own}, {box, 0, 0.64, 0.97, 1, 0.65, 0.98, dark}, {box, 0.85, 0.7, 0.97, 0.9, 0.92, 1, dark}, {box, 0.85, 0.35, 0.97, 0.9, 0.58, 1, dark}}},
	{name: "StoveBurner", w: 0.6, h: 0.92, d: 0.6, place: onWall, rooms: kitchen, tints: "white black gray",
		purpose: "to cook on", look: "block with round black plates and an oven door",
		parts: []part{{box, 0, 0, 0, 1, 0.98, 0.97, own}, {tube, 0.08, 0.98, 0.1, 0.42, 1, 0.44, black}, {tube, 0.58, 0.98, 0.1, 0.92, 1, 0.44, black}, {tube, 0.08, 0.98, 0.55, 0.42, 1, 0.89, black}, {tube, 0.58, 0.98, 0.55, 0.92, 1, 0.89, black}, {box, 0.12, 0.2, 0.97, 0.88, 0.7, 0.99, dark}}},
	{name: "Bathtub", w: 1.6, h: 0.55, d: 0.75, place: onWall, rooms: bathroom, tints: "white beige",
		purpose: "to lie in warm water in", look: "long low tub with water in it",
		parts: []part{{box, 0, 0, 0, 1, 1, 1, own}, {box, 0.06, 0.97, 0.12, 0.94, 1.02, 0.88, glass}, {tube, 0.03, 1, 0.42, 0.08, 1.4, 0.54, silver}}},
	{name: "Toilet", w: 0.42, h: 0.78, d: 0.65, place: onWall, rooms: bathroom, tints: "white",
		purpose: "that is flushed", look: "bowl with a tank behind it",
		parts: []part{{box, 0.05, 0.3, 0, 0.95, 1, 0.3, own}, {tube, 0.15, 0, 0.3, 0.85, 0.4, 0.9, own}, {tube, 0, 0.4, 0.25, 1, 0.52, 1, own}, {tube, 0.15, 0.52, 0.35, 0.85, 0.53, 0.92, glass}}},
	{name: "FloorLamp", w: 0.4, h: 1.6, d: 0.4, place: onWall, rooms: living | bedroom, tints: "yellow white red",
		purpose: "that lights a corner", look: "shade on a tall pole",
		parts: []part{{tube, 0.15, 0, 0.15, 0.85, 0.02, 0.85, dark}, {tube, 0.46, 0.02, 0.46, 0.54, 0.8, 0.54, dark}, {tube, 0, 0.78, 0, 1, 1, 1, own}}},
	{name: "GarbageCan", w: 0.32, h: 0.45, d: 0.32, place: onWall, rooms: anywhere, tints: "gray black green white",
		purpose: "to throw litter into", look: "bucket that is dark inside, on the floor",
		parts: []part{{tube, 0, 0, 0, 1, 0.98, 1, own}, {tube, 0.1, 0.98, 0.1, 0.9, 1, 0.9, black}}},
	{name: "LaundryHamper", w: 0.42, h: 0.6, d: 0.42, place: onWall, rooms: bedroom | bathroom, tints: "beige white blue",
		purpose: "to collect dirty clothes in", look: "basket with clothes on top",
		parts: []part{{box, 0, 0, 0, 1, 0.9, 1, own}, {box, 0, 0.45, 0, 1.01, 0.48, 1.01, ownDark}, {globe, 0.1, 0.75, 0.1, 0.9, 1.05, 0.9, blue}}},
	{name: "HousePlant", w: 0.5, h: 1.0, d: 0.5, place: onWall, rooms: anywhere, tints: "orange white brown",
		purpose: "green that needs water", look: "pot with a round green bush",
		parts: []part{{tube, 0.25, 0, 0.25, 0.75, 0.35, 0.75, own}, {tube, 0.3, 0.35, 0.3, 0.7, 0.36, 0.7, soil}, {globe, 0, 0.35, 0, 1, 1, 1, leaf}}},
	{name: "Footstool", w: 0.45, h: 0.38, d: 0.45, place: onFloor, rooms: living | bedroom, tints: "purple red blue beige",
		purpose: "to rest your feet on", look: "low round cushion on a base",
		parts: []part{{tube, 0.06, 0, 0.06, 0.94, 0.4, 0.94, wood}, {tube, 0, 0.4, 0, 1, 1, 1, own}}},
	{name: "Safe", w: 0.45, h: 0.5, d: 0.45, place: onWall, rooms: bedroom | living, tints: "gray black",
		purpose: "to lock valuables away in", look: "heavy cube with a dial",
		parts: []part{{box, 0, 0, 0, 1, 1, 0.96, own}, {box, 0.08, 0.08, 0.96, 0.92, 0.92, 1, ownDark}, {globe, 0.4, 0.4, 0.95, 0.6, 0.6, 1.06, silver}}},
	{name: "BasketBall", w: 0.25, h: 0.25, d: 0.25, place: onFloor, rooms: bedroom | living, tints: "orange",
		purpose: "to play with on a court", look: "ball on the floor",
		parts: []part{{globe, 0, 0, 0, 1, 1, 1, own}}},
	{name: "Box", w: 0.42, h: 0.32, d: 0.36, place: onFloor, rooms: anywhere, tints: "brown beige",
		purpose: "to pack things into", look: "carton with a strip of tape",
		parts: []part{{box, 0, 0, 0, 1, 1, 1, own}, {box, 0.44, 0.01, -0.005, 0.56, 1.005, 1.005, cream}}},
	// Objects on furniture.
	{name: "Television", w: 1.0, h: 0.6, d: 0.12, rooms: living | bedroom, tints: "black", purpose: "to watch films on", look: "wide flat screen",
		parts: []part{{box, 0, 0.1, 0.3, 1, 1, 0.9, own}, {box, 0.03, 0.14, 0.9, 0.97, 0.96, 0.95, blue}, {box, 0.35, 0, 0, 0.65, 0.1, 1, dark}}},
	{name: "Microwave", w: 0.5, h: 0.3, d: 0.36, rooms: kitchen, tints: "white black gray", purpose: "to warm food up in", look: "box with a window and buttons",
		parts: []part{{box, 0, 0, 0, 1, 1, 0.96, own}, {box, 0.06, 0.14, 0.96, 0.68, 0.86, 1, dark}, {box, 0.78, 0.6, 0.96, 0.94, 0.85, 1, leaf}}},
	{name: "CoffeeMachine", w: 0.25, h: 0.36, d: 0.28, rooms: kitchen, tints: "black red gray", purpose: "that makes coffee", look: "tall machine with a pot in it",
		parts: []part{{box, 0, 0, 0, 1, 0.14, 1, own}, {box, 0, 0.14, 0, 1, 1, 0.4, own}, {box, 0, 0.75, 0.4, 1, 1, 1, own}, {tube, 0.2, 0.14, 0.45, 0.8, 0.6, 0.98, glass}}},
	{name: "Toaster", w: 0.3, h: 0.2, d: 0.2, rooms: kitchen, tints: "gray red white", purpose: "to brown slices of bread in", look: "small box with two dark slots on top",
		parts: []part{{box, 0, 0, 0, 1, 0.97, 1, own}, {box, 0.1, 0.97, 0.2, 0.9, 1, 0.4, black}, {box, 0.1, 0.97, 0.6, 0.9, 1, 0.8, black}}},
	{name: "Kettle", w: 0.22, h: 0.24, d: 0.2, rooms: kitchen, tints: "red blue gray", purpose: "to boil water in", look: "round can with a lid and a spout",
		parts: []part{{tube, 0.1, 0, 0, 0.85, 0.75, 1, own}, {globe, 0.2, 0.6, 0.1, 0.75, 1, 0.9, ownDark}, {box, 0.85, 0.5, 0.4, 1.05, 0.62, 0.6, ownDark}}},
	{name: "Pot", w: 0.28, h: 0.18, d: 0.28, rooms: kitchen, tints: "gray red black", purpose: "to cook soup in", look: "wide round vessel with a lid",
		parts: []part{{tube, 0, 0, 0, 1, 0.85, 1, own}, {tube, 0.02, 0.85, 0.02, 0.98, 0.92, 0.98, ownDark}, {globe, 0.42, 0.88, 0.42, 0.58, 1.05, 0.58, black}}},
	{name: "Bread", w: 0.28, h: 0.14, d: 0.13, rooms: kitchen, tints: "brown", purpose: "from the bakery to cut slices of", look: "long round loaf",
		parts: []part{{globe, 0, -0.3, 0, 1, 1, 1, own}, {box, 0.3, 0.9, 0.3, 0.33, 1.02, 0.7, cream}, {box, 0.5, 0.92, 0.3, 0.53, 1.03, 0.7, cream}, {box, 0.7, 0.9, 0.3, 0.73, 1.02, 0.7, cream}}},
	{name: "Apple", w: 0.12, h: 0.12, d: 0.12, rooms: kitchen, tints: "red green", purpose: "fresh to bite into, from a tree", look: "small ball with a stem",
		parts: []part{{globe, 0, 0, 0, 1, 1, 1, own}, {box, 0.46, 0.95, 0.46, 0.54, 1.25, 0.54, wood}}},
	{name: "Tomato", w: 0.11, h: 0.09, d: 0.11, rooms: kitchen, tints: "red", purpose: "juicy for a salad", look: "small flat ball with green on top",
		parts: []part{{globe, 0, 0, 0, 1, 1, 1, own}, {globe, 0.3, 0.85, 0.3, 0.7, 1.08, 0.7, leaf}}},
	{name: "Lettuce", w: 0.24, h: 0.2, d: 0.24, rooms: kitchen, tints: "green", purpose: "leafy for a salad", look: "round head of leaves",
		parts: []part{{globe, 0, 0, 0, 1, 1, 1, own}, {globe, 0.1, 0.25, 0.3, 0.9, 1.1, 1.1, leaf}}},
	{name: "Bowl", w: 0.24, h: 0.1, d: 0.24, rooms: kitchen, tints: "blue white red", purpose: "to eat cereal from", look: "wide open round dish",
		parts: []part{{tube, 0, 0.3, 0, 1, 1, 1, own}, {tube, 0.2, 0, 0.2, 0.8, 0.3, 0.8, own}, {tube, 0.08, 1, 0.08, 0.92, 1.02, 0.92, ownDark}}},
	{name: "Plate", w: 0.28, h: 0.03, d: 0.28, rooms: kitchen, tints: "white blue", purpose: "flat to serve a meal on", look: "flat round disc",
		parts: []part{{tube, 0, 0, 0, 1, 1, 1, own}, {tube, 0.2, 1, 0.2, 0.8, 1.1, 0.8, ownDark}}},
	{name: "Mug", w: 0.12, h: 0.14, d: 0.12, rooms: kitchen | living, tints: "red blue yellow white", purpose: "to drink tea from", look: "small upright vessel with a handle",
		parts: []part{{tube, 0, 0, 0, 0.85, 1, 1, own}, {box, 0.83, 0.25, 0.42, 1.15, 0.8, 0.58, ownDark}, {tube, 0.08, 1, 0.08, 0.77, 1.02, 0.92, soil}}},
	{name: "WineBottle", w: 0.11, h: 0.34, d: 0.11, rooms: kitchen, tints: "green purple", purpose: "made of glass, full of wine", look: "tall bottle with a narrow neck",
		parts: []part{{tube, 0, 0, 0, 1, 0.6, 1, own}, {globe, 0, 0.45, 0, 1, 0.75, 1, own}, {tube, 0.32, 0.6, 0.32, 0.68, 1, 0.68, own}, {tube, -0.01, 0.15, -0.01, 1.01, 0.42, 1.01, cream}}},
	{name: "PaperTowelRoll", w: 0.14, h: 0.28, d: 0.14, rooms: kitchen, tints: "white", purpose: "to wipe up spills with", look: "upright roll",
		parts: []part{{tube, 0, 0, 0, 1, 0.95, 1, own}, {tube, 0.38, 0.95, 0.38, 0.62, 1.1, 0.62, wood}}},
	{name: "Book", w: 0.26, h: 0.06, d: 0.2, rooms: living | bedroom, tints: "red blue green purple", purpose: "with pages to read", look: "flat block with pages between covers",
		parts: []part{{box, 0, 0, 0, 1, 0.15, 1, own}, {box, 0.03, 0.15, 0.02, 1, 0.85, 0.97, cream}, {box, 0, 0.85, 0, 1, 1, 1, own}, {box, 0, 0, 0, 0.04, 1, 1, own}}},
	{name: "Laptop", w: 0.36, h: 0.24, d: 0.26, rooms: living | bedroom, tints: "gray black", purpose: "to type and browse on", look: "thin keyboard with a screen standing up",
		parts: []part{{box, 0, 0, 0, 1, 0.08, 1, own}, {box, 0, 0.08, 0, 1, 1, 0.08, own}, {box, 0.04, 0.14, 0.08, 0.96, 0.95, 0.1, blue}, {box, 0.08, 0.08, 0.3, 0.92, 0.1, 0.9, dark}}},
	{name: "AlarmClock", w: 0.16, h: 0.16, d: 0.1, rooms: bedroom, tints: "red black blue", purpose: "that wakes you up", look: "small clock with a white face",
		parts: []part{{globe, 0, 0, 0, 1, 1, 0.9, own}, {globe, 0.14, 0.14, 0.5, 0.86, 0.86, 1, white}, {box, 0.48, 0.48, 0.98, 0.52, 0.8, 1.04, black}, {box, 0.48, 0.46, 0.98, 0.72, 0.52, 1.04, black}}},
	{name: "DeskLamp", w: 0.24, h: 0.45, d: 0.24, rooms: bedroom | living, tints: "yellow green white", purpose: "that lights what you read", look: "shade on a short pole",
		parts: []part{{tube, 0.2, 0, 0.2, 0.8, 0.05, 0.8, dark}, {tube, 0.45, 0.05, 0.45, 0.55, 0.6, 0.55, dark}, {tube, 0, 0.55, 0, 1, 1, 1, own}}},
	{name: "TeddyBear", w: 0.26, h: 0.34, d: 0.2, rooms: bedroom, tints: "brown", purpose: "soft for a child to hug", look: "body with a round head and two ears",
		parts: []part{{globe, 0.1, 0, 0.1, 0.9, 0.65, 0.9, own}, {globe, 0.2, 0.5, 0.15, 0.8, 1, 0.85, own}, {globe, 0.15, 0.85, 0.35, 0.4, 1.08, 0.6, ownDark}, {globe, 0.6, 0.85, 0.35, 0.85, 1.08, 0.6, ownDark}, {globe, 0.38, 0.6, 0.75, 0.62, 0.78, 0.95, cream}, {globe, 0, 0.3, 0.4, 0.25, 0.55, 0.7, own}, {globe, 0.75, 0.3, 0.4, 1, 0.55, 0.7, own}}},
	{name: "Vase", w: 0.16, h: 0.3, d: 0.16, rooms: living | bedroom, tints: "blue purple white orange", purpose: "to put flowers into", look: "round belly with a neck",
		parts: []part{{globe, 0, 0, 0, 1, 0.75, 1, own}, {tube, 0.32, 0.6, 0.32, 0.68, 1, 0.68, own}, {tube, 0.25, 0.95, 0.25, 0.75, 1, 0.75, ownDark}}},
	{name: "Statue", w: 0.18, h: 0.4, d: 0.16, rooms: living, tints: "gray beige", purpose: "made by a sculptor", look: "figure on a base",
		parts: []part{{box, 0, 0, 0, 1, 0.15, 1, dark}, {tube, 0.25, 0.15, 0.25, 0.75, 0.72, 0.75, own}, {globe, 0.3, 0.68, 0.28, 0.7, 1, 0.72, own}}},
	{name: "Candle", w: 0.09, h: 0.2, d: 0.09, rooms: bathroom | living, tints: "white red purple", purpose: "of wax that burns", look: "thin upright stick with a flame",
		parts: []part{{tube, 0, 0, 0, 1, 0.75, 1, own}, {globe, 0.3, 0.75, 0.3, 0.7, 1.05, 0.7, yellow}}},
	{name: "TissueBox", w: 0.24, h: 0.14, d: 0.13, rooms: living | bathroom | bedroom, tints: "blue pink green", purpose: "for when your nose runs", look: "small box with white paper coming out",
		parts: []part{{box, 0, 0, 0, 1, 0.75, 1, own}, {globe, 0.35, 0.55, 0.25, 0.65, 1.2, 0.75, white}}},
	{name: "ToiletPaper", w: 0.12, h: 0.12, d: 0.12, rooms: bathroom, tints: "white", purpose: "that comes on a roll for the bathroom", look: "short roll with a hole",
		parts: []part{{tube, 0, 0, 0, 1, 1, 1, own}, {tube, 0.35, 1, 0.35, 0.65, 1.02, 0.65, soil}}},
	{name: "SoapBottle", w: 0.09, h: 0.22, d: 0.09, rooms: bathroom | kitchen, tints: "green pink blue", purpose: "to wash your hands with", look: "small bottle with a pump",
		parts: []part{{tube, 0, 0, 0, 1, 0.7, 1, own}, {tube, 0.4, 0.7, 0.4, 0.6, 0.95, 0.6, white}, {box, 0.3, 0.92, 0.4, 0.7, 1.02, 1.1, white}}},
	{name: "SprayBottle", w: 0.1, h: 0.28, d: 0.1, rooms: bathroom | kitchen, tints: "blue yellow", purpose: "to clean windows with", look: "bottle with a red trigger",
		parts: []part{{tube, 0, 0, 0, 1, 0.65, 1, own}, {tube, 0.35, 0.65, 0.35, 0.65, 0.8, 0.65, white}, {box, 0.2, 0.8, 0.3, 0.8, 1, 1.2, red}}},
}

// kinds maps names to kinds.
var kinds = func() map[string]*kind {
	m := make(map[string]*kind, len(catalog))
	for i := range catalog {
		m[catalog[i].name] = &catalog[i]
	}
	return m
}()

// objectTypes returns the types of the objects in generated rooms, as options name them.
func objectTypes() []string {
	names := make([]string, len(catalog))
	for i := range catalog {
		names[i] = catalog[i].name
	}
	return names
}

// Spoken returns a type as prompts write it: GarbageCan becomes "garbage can".
func Spoken(name string) string { return spacedName(name) }

// kindOf returns the kind of a type. A type that is not in the catalogue, which task
// files may name, is a small object whose form and colour are derived from its name.
func kindOf(name string) *kind {
	if k := kinds[name]; k != nil {
		return k
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	n := h.Sum32()
	colors := []string{"red", "green", "blue", "yellow", "orange", "purple", "pink", "white"}
	k := &kind{name: name, w: 0.2, h: 0.2, d: 0.2, rooms: anywhere, tints: colors[n%uint32(len(colors))]}
	k.parts = []part{{rays.Form(n >> 8 % 3), 0, 0, 0, 1, 1, 1, own}, {box, 0.2, 0.4, -0.02, 0.8, 0.6, 1.02, ownDark}}
	return k
}

// spacedName splits the name of a type into words: GarbageCan becomes "garbage can".
func spacedName(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
