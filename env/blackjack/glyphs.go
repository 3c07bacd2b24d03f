package blackjack

// Bitmaps of the ranks, five dots wide and seven high, below an empty line.
var ranks = map[byte]string{
	'A': `
 ###
#   #
#   #
#####
#   #
#   #
#   #`,
	'2': `
 ###
#   #
    #
   #
  #
 #
#####`,
	'3': `
####
    #
    #
 ###
    #
    #
####`,
	'4': `
   #
  ##
 # #
#  #
#####
   #
   #`,
	'5': `
#####
#
####
    #
    #
#   #
 ###`,
	'6': `
 ###
#
#
####
#   #
#   #
 ###`,
	'7': `
#####
    #
   #
   #
  #
  #
  #`,
	'8': `
 ###
#   #
#   #
 ###
#   #
#   #
 ###`,
	'9': `
 ###
#   #
#   #
 ####
    #
    #
 ###`,
	'J': `
  ###
   #
   #
   #
   #
#  #
 ##`,
	'Q': `
 ###
#   #
#   #
#   #
# # #
#  #
 ## #`,
	'K': `
#   #
#  #
# #
##
# #
#  #
#   #`,
}

// Bitmaps of the suits, seven dots wide and high, below an empty line.
var suits = [4]string{
	Clubs: `
  ###
  ###
## # ##
#######
## # ##
   #
  ###`,
	Diamonds: `
   #
  ###
 #####
#######
 #####
  ###
   #`,
	Hearts: `
 ## ##
#######
#######
#######
 #####
  ###
   #`,
	Spades: `
   #
  ###
 #####
#######
#######
## # ##
  ###`,
}
