// Kernels and their calls refuse what their constraints forbid.
// RUN: fcdp-opt %s --split-input-file --verify-diagnostics --fcdp-verify-imported

// C1
// expected-error@+1 {{expected a name 'kernel.NAME' of letters, digits and '_', got 'a'}}
fcdp.kernel @a maps [identity] {
^bb0(%x: f32):
  fcdp.yield %x : f32
}

// -----

// C1
// expected-error@+1 {{expected a name 'kernel.NAME' of letters, digits and '_', got 'kernel.a.b'}}
fcdp.kernel @kernel.a.b maps [identity] {
^bb0(%x: f32):
  fcdp.yield %x : f32
}

// -----

// C2
// expected-error@+1 {{expected an argument of f32 or bf16 for each of 2 maps, got 'f32'}}
fcdp.kernel @kernel.a maps [identity, row] {
^bb0(%x: f32):
  fcdp.yield %x : f32
}

// -----

// C2
// expected-error@+1 {{expected an argument of f32 or bf16 for each of 1 maps, got 'f64'}}
fcdp.kernel @kernel.a maps [identity] {
^bb0(%x: f64):
  %0 = arith.constant 1.0 : f32
  fcdp.yield %0 : f32
}

// -----

// C2
// expected-error@+1 {{expected an operand with the map 'identity'}}
fcdp.kernel @kernel.a maps [scalar] {
^bb0(%x: f32):
  fcdp.yield %x : f32
}

// -----

// C3
fcdp.kernel @kernel.a maps [identity] {
^bb0(%x: f32):
  // expected-error@+1 {{may not be in the body of a kernel}}
  %0 = math.tanh %x : f32
  fcdp.yield %x : f32
}

// -----

// C3
fcdp.kernel @kernel.a maps [identity, identity] {
^bb0(%x: f32, %y: bf16):
  // expected-error@+1 {{expected arithmetic in f32}}
  %0 = arith.addf %y, %y : bf16
  fcdp.yield %x : f32
}

// -----

// C3
fcdp.kernel @kernel.a maps [identity] {
^bb0(%x: f32):
  // expected-error@+1 {{expected no flags of fast math}}
  %0 = arith.addf %x, %x fastmath<contract> : f32
  fcdp.yield %x : f32
}

// -----

// C3
fcdp.kernel @kernel.a maps [identity] {
^bb0(%x: f32):
  // expected-error@+1 {{expected a conversion from bf16 to f32}}
  %0 = arith.extf %x : f32 to f64
  fcdp.yield %x : f32
}

// -----

// C3
fcdp.kernel @kernel.a maps [identity] {
^bb0(%x: f32):
  // expected-error@+1 {{expected a conversion from f32 to bf16, rounded to nearest}}
  %0 = arith.truncf %x : f32 to f16
  fcdp.yield %x : f32
}

// -----

// C4
// expected-error@+1 {{expected at most 16 operands and results, got 17}}
fcdp.kernel @kernel.a maps [identity] {
^bb0(%x: f32):
  fcdp.yield %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x, %x : f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32, f32
}

// -----

// C4
// expected-error@+1 {{expected at most 512 operations in the body, got 513}}
fcdp.kernel @kernel.a maps [identity] {
^bb0(%x: f32):
  %v0 = arith.negf %x : f32
  %v1 = arith.negf %x : f32
  %v2 = arith.negf %x : f32
  %v3 = arith.negf %x : f32
  %v4 = arith.negf %x : f32
  %v5 = arith.negf %x : f32
  %v6 = arith.negf %x : f32
  %v7 = arith.negf %x : f32
  %v8 = arith.negf %x : f32
  %v9 = arith.negf %x : f32
  %v10 = arith.negf %x : f32
  %v11 = arith.negf %x : f32
  %v12 = arith.negf %x : f32
  %v13 = arith.negf %x : f32
  %v14 = arith.negf %x : f32
  %v15 = arith.negf %x : f32
  %v16 = arith.negf %x : f32
  %v17 = arith.negf %x : f32
  %v18 = arith.negf %x : f32
  %v19 = arith.negf %x : f32
  %v20 = arith.negf %x : f32
  %v21 = arith.negf %x : f32
  %v22 = arith.negf %x : f32
  %v23 = arith.negf %x : f32
  %v24 = arith.negf %x : f32
  %v25 = arith.negf %x : f32
  %v26 = arith.negf %x : f32
  %v27 = arith.negf %x : f32
  %v28 = arith.negf %x : f32
  %v29 = arith.negf %x : f32
  %v30 = arith.negf %x : f32
  %v31 = arith.negf %x : f32
  %v32 = arith.negf %x : f32
  %v33 = arith.negf %x : f32
  %v34 = arith.negf %x : f32
  %v35 = arith.negf %x : f32
  %v36 = arith.negf %x : f32
  %v37 = arith.negf %x : f32
  %v38 = arith.negf %x : f32
  %v39 = arith.negf %x : f32
  %v40 = arith.negf %x : f32
  %v41 = arith.negf %x : f32
  %v42 = arith.negf %x : f32
  %v43 = arith.negf %x : f32
  %v44 = arith.negf %x : f32
  %v45 = arith.negf %x : f32
  %v46 = arith.negf %x : f32
  %v47 = arith.negf %x : f32
  %v48 = arith.negf %x : f32
  %v49 = arith.negf %x : f32
  %v50 = arith.negf %x : f32
  %v51 = arith.negf %x : f32
  %v52 = arith.negf %x : f32
  %v53 = arith.negf %x : f32
  %v54 = arith.negf %x : f32
  %v55 = arith.negf %x : f32
  %v56 = arith.negf %x : f32
  %v57 = arith.negf %x : f32
  %v58 = arith.negf %x : f32
  %v59 = arith.negf %x : f32
  %v60 = arith.negf %x : f32
  %v61 = arith.negf %x : f32
  %v62 = arith.negf %x : f32
  %v63 = arith.negf %x : f32
  %v64 = arith.negf %x : f32
  %v65 = arith.negf %x : f32
  %v66 = arith.negf %x : f32
  %v67 = arith.negf %x : f32
  %v68 = arith.negf %x : f32
  %v69 = arith.negf %x : f32
  %v70 = arith.negf %x : f32
  %v71 = arith.negf %x : f32
  %v72 = arith.negf %x : f32
  %v73 = arith.negf %x : f32
  %v74 = arith.negf %x : f32
  %v75 = arith.negf %x : f32
  %v76 = arith.negf %x : f32
  %v77 = arith.negf %x : f32
  %v78 = arith.negf %x : f32
  %v79 = arith.negf %x : f32
  %v80 = arith.negf %x : f32
  %v81 = arith.negf %x : f32
  %v82 = arith.negf %x : f32
  %v83 = arith.negf %x : f32
  %v84 = arith.negf %x : f32
  %v85 = arith.negf %x : f32
  %v86 = arith.negf %x : f32
  %v87 = arith.negf %x : f32
  %v88 = arith.negf %x : f32
  %v89 = arith.negf %x : f32
  %v90 = arith.negf %x : f32
  %v91 = arith.negf %x : f32
  %v92 = arith.negf %x : f32
  %v93 = arith.negf %x : f32
  %v94 = arith.negf %x : f32
  %v95 = arith.negf %x : f32
  %v96 = arith.negf %x : f32
  %v97 = arith.negf %x : f32
  %v98 = arith.negf %x : f32
  %v99 = arith.negf %x : f32
  %v100 = arith.negf %x : f32
  %v101 = arith.negf %x : f32
  %v102 = arith.negf %x : f32
  %v103 = arith.negf %x : f32
  %v104 = arith.negf %x : f32
  %v105 = arith.negf %x : f32
  %v106 = arith.negf %x : f32
  %v107 = arith.negf %x : f32
  %v108 = arith.negf %x : f32
  %v109 = arith.negf %x : f32
  %v110 = arith.negf %x : f32
  %v111 = arith.negf %x : f32
  %v112 = arith.negf %x : f32
  %v113 = arith.negf %x : f32
  %v114 = arith.negf %x : f32
  %v115 = arith.negf %x : f32
  %v116 = arith.negf %x : f32
  %v117 = arith.negf %x : f32
  %v118 = arith.negf %x : f32
  %v119 = arith.negf %x : f32
  %v120 = arith.negf %x : f32
  %v121 = arith.negf %x : f32
  %v122 = arith.negf %x : f32
  %v123 = arith.negf %x : f32
  %v124 = arith.negf %x : f32
  %v125 = arith.negf %x : f32
  %v126 = arith.negf %x : f32
  %v127 = arith.negf %x : f32
  %v128 = arith.negf %x : f32
  %v129 = arith.negf %x : f32
  %v130 = arith.negf %x : f32
  %v131 = arith.negf %x : f32
  %v132 = arith.negf %x : f32
  %v133 = arith.negf %x : f32
  %v134 = arith.negf %x : f32
  %v135 = arith.negf %x : f32
  %v136 = arith.negf %x : f32
  %v137 = arith.negf %x : f32
  %v138 = arith.negf %x : f32
  %v139 = arith.negf %x : f32
  %v140 = arith.negf %x : f32
  %v141 = arith.negf %x : f32
  %v142 = arith.negf %x : f32
  %v143 = arith.negf %x : f32
  %v144 = arith.negf %x : f32
  %v145 = arith.negf %x : f32
  %v146 = arith.negf %x : f32
  %v147 = arith.negf %x : f32
  %v148 = arith.negf %x : f32
  %v149 = arith.negf %x : f32
  %v150 = arith.negf %x : f32
  %v151 = arith.negf %x : f32
  %v152 = arith.negf %x : f32
  %v153 = arith.negf %x : f32
  %v154 = arith.negf %x : f32
  %v155 = arith.negf %x : f32
  %v156 = arith.negf %x : f32
  %v157 = arith.negf %x : f32
  %v158 = arith.negf %x : f32
  %v159 = arith.negf %x : f32
  %v160 = arith.negf %x : f32
  %v161 = arith.negf %x : f32
  %v162 = arith.negf %x : f32
  %v163 = arith.negf %x : f32
  %v164 = arith.negf %x : f32
  %v165 = arith.negf %x : f32
  %v166 = arith.negf %x : f32
  %v167 = arith.negf %x : f32
  %v168 = arith.negf %x : f32
  %v169 = arith.negf %x : f32
  %v170 = arith.negf %x : f32
  %v171 = arith.negf %x : f32
  %v172 = arith.negf %x : f32
  %v173 = arith.negf %x : f32
  %v174 = arith.negf %x : f32
  %v175 = arith.negf %x : f32
  %v176 = arith.negf %x : f32
  %v177 = arith.negf %x : f32
  %v178 = arith.negf %x : f32
  %v179 = arith.negf %x : f32
  %v180 = arith.negf %x : f32
  %v181 = arith.negf %x : f32
  %v182 = arith.negf %x : f32
  %v183 = arith.negf %x : f32
  %v184 = arith.negf %x : f32
  %v185 = arith.negf %x : f32
  %v186 = arith.negf %x : f32
  %v187 = arith.negf %x : f32
  %v188 = arith.negf %x : f32
  %v189 = arith.negf %x : f32
  %v190 = arith.negf %x : f32
  %v191 = arith.negf %x : f32
  %v192 = arith.negf %x : f32
  %v193 = arith.negf %x : f32
  %v194 = arith.negf %x : f32
  %v195 = arith.negf %x : f32
  %v196 = arith.negf %x : f32
  %v197 = arith.negf %x : f32
  %v198 = arith.negf %x : f32
  %v199 = arith.negf %x : f32
  %v200 = arith.negf %x : f32
  %v201 = arith.negf %x : f32
  %v202 = arith.negf %x : f32
  %v203 = arith.negf %x : f32
  %v204 = arith.negf %x : f32
  %v205 = arith.negf %x : f32
  %v206 = arith.negf %x : f32
  %v207 = arith.negf %x : f32
  %v208 = arith.negf %x : f32
  %v209 = arith.negf %x : f32
  %v210 = arith.negf %x : f32
  %v211 = arith.negf %x : f32
  %v212 = arith.negf %x : f32
  %v213 = arith.negf %x : f32
  %v214 = arith.negf %x : f32
  %v215 = arith.negf %x : f32
  %v216 = arith.negf %x : f32
  %v217 = arith.negf %x : f32
  %v218 = arith.negf %x : f32
  %v219 = arith.negf %x : f32
  %v220 = arith.negf %x : f32
  %v221 = arith.negf %x : f32
  %v222 = arith.negf %x : f32
  %v223 = arith.negf %x : f32
  %v224 = arith.negf %x : f32
  %v225 = arith.negf %x : f32
  %v226 = arith.negf %x : f32
  %v227 = arith.negf %x : f32
  %v228 = arith.negf %x : f32
  %v229 = arith.negf %x : f32
  %v230 = arith.negf %x : f32
  %v231 = arith.negf %x : f32
  %v232 = arith.negf %x : f32
  %v233 = arith.negf %x : f32
  %v234 = arith.negf %x : f32
  %v235 = arith.negf %x : f32
  %v236 = arith.negf %x : f32
  %v237 = arith.negf %x : f32
  %v238 = arith.negf %x : f32
  %v239 = arith.negf %x : f32
  %v240 = arith.negf %x : f32
  %v241 = arith.negf %x : f32
  %v242 = arith.negf %x : f32
  %v243 = arith.negf %x : f32
  %v244 = arith.negf %x : f32
  %v245 = arith.negf %x : f32
  %v246 = arith.negf %x : f32
  %v247 = arith.negf %x : f32
  %v248 = arith.negf %x : f32
  %v249 = arith.negf %x : f32
  %v250 = arith.negf %x : f32
  %v251 = arith.negf %x : f32
  %v252 = arith.negf %x : f32
  %v253 = arith.negf %x : f32
  %v254 = arith.negf %x : f32
  %v255 = arith.negf %x : f32
  %v256 = arith.negf %x : f32
  %v257 = arith.negf %x : f32
  %v258 = arith.negf %x : f32
  %v259 = arith.negf %x : f32
  %v260 = arith.negf %x : f32
  %v261 = arith.negf %x : f32
  %v262 = arith.negf %x : f32
  %v263 = arith.negf %x : f32
  %v264 = arith.negf %x : f32
  %v265 = arith.negf %x : f32
  %v266 = arith.negf %x : f32
  %v267 = arith.negf %x : f32
  %v268 = arith.negf %x : f32
  %v269 = arith.negf %x : f32
  %v270 = arith.negf %x : f32
  %v271 = arith.negf %x : f32
  %v272 = arith.negf %x : f32
  %v273 = arith.negf %x : f32
  %v274 = arith.negf %x : f32
  %v275 = arith.negf %x : f32
  %v276 = arith.negf %x : f32
  %v277 = arith.negf %x : f32
  %v278 = arith.negf %x : f32
  %v279 = arith.negf %x : f32
  %v280 = arith.negf %x : f32
  %v281 = arith.negf %x : f32
  %v282 = arith.negf %x : f32
  %v283 = arith.negf %x : f32
  %v284 = arith.negf %x : f32
  %v285 = arith.negf %x : f32
  %v286 = arith.negf %x : f32
  %v287 = arith.negf %x : f32
  %v288 = arith.negf %x : f32
  %v289 = arith.negf %x : f32
  %v290 = arith.negf %x : f32
  %v291 = arith.negf %x : f32
  %v292 = arith.negf %x : f32
  %v293 = arith.negf %x : f32
  %v294 = arith.negf %x : f32
  %v295 = arith.negf %x : f32
  %v296 = arith.negf %x : f32
  %v297 = arith.negf %x : f32
  %v298 = arith.negf %x : f32
  %v299 = arith.negf %x : f32
  %v300 = arith.negf %x : f32
  %v301 = arith.negf %x : f32
  %v302 = arith.negf %x : f32
  %v303 = arith.negf %x : f32
  %v304 = arith.negf %x : f32
  %v305 = arith.negf %x : f32
  %v306 = arith.negf %x : f32
  %v307 = arith.negf %x : f32
  %v308 = arith.negf %x : f32
  %v309 = arith.negf %x : f32
  %v310 = arith.negf %x : f32
  %v311 = arith.negf %x : f32
  %v312 = arith.negf %x : f32
  %v313 = arith.negf %x : f32
  %v314 = arith.negf %x : f32
  %v315 = arith.negf %x : f32
  %v316 = arith.negf %x : f32
  %v317 = arith.negf %x : f32
  %v318 = arith.negf %x : f32
  %v319 = arith.negf %x : f32
  %v320 = arith.negf %x : f32
  %v321 = arith.negf %x : f32
  %v322 = arith.negf %x : f32
  %v323 = arith.negf %x : f32
  %v324 = arith.negf %x : f32
  %v325 = arith.negf %x : f32
  %v326 = arith.negf %x : f32
  %v327 = arith.negf %x : f32
  %v328 = arith.negf %x : f32
  %v329 = arith.negf %x : f32
  %v330 = arith.negf %x : f32
  %v331 = arith.negf %x : f32
  %v332 = arith.negf %x : f32
  %v333 = arith.negf %x : f32
  %v334 = arith.negf %x : f32
  %v335 = arith.negf %x : f32
  %v336 = arith.negf %x : f32
  %v337 = arith.negf %x : f32
  %v338 = arith.negf %x : f32
  %v339 = arith.negf %x : f32
  %v340 = arith.negf %x : f32
  %v341 = arith.negf %x : f32
  %v342 = arith.negf %x : f32
  %v343 = arith.negf %x : f32
  %v344 = arith.negf %x : f32
  %v345 = arith.negf %x : f32
  %v346 = arith.negf %x : f32
  %v347 = arith.negf %x : f32
  %v348 = arith.negf %x : f32
  %v349 = arith.negf %x : f32
  %v350 = arith.negf %x : f32
  %v351 = arith.negf %x : f32
  %v352 = arith.negf %x : f32
  %v353 = arith.negf %x : f32
  %v354 = arith.negf %x : f32
  %v355 = arith.negf %x : f32
  %v356 = arith.negf %x : f32
  %v357 = arith.negf %x : f32
  %v358 = arith.negf %x : f32
  %v359 = arith.negf %x : f32
  %v360 = arith.negf %x : f32
  %v361 = arith.negf %x : f32
  %v362 = arith.negf %x : f32
  %v363 = arith.negf %x : f32
  %v364 = arith.negf %x : f32
  %v365 = arith.negf %x : f32
  %v366 = arith.negf %x : f32
  %v367 = arith.negf %x : f32
  %v368 = arith.negf %x : f32
  %v369 = arith.negf %x : f32
  %v370 = arith.negf %x : f32
  %v371 = arith.negf %x : f32
  %v372 = arith.negf %x : f32
  %v373 = arith.negf %x : f32
  %v374 = arith.negf %x : f32
  %v375 = arith.negf %x : f32
  %v376 = arith.negf %x : f32
  %v377 = arith.negf %x : f32
  %v378 = arith.negf %x : f32
  %v379 = arith.negf %x : f32
  %v380 = arith.negf %x : f32
  %v381 = arith.negf %x : f32
  %v382 = arith.negf %x : f32
  %v383 = arith.negf %x : f32
  %v384 = arith.negf %x : f32
  %v385 = arith.negf %x : f32
  %v386 = arith.negf %x : f32
  %v387 = arith.negf %x : f32
  %v388 = arith.negf %x : f32
  %v389 = arith.negf %x : f32
  %v390 = arith.negf %x : f32
  %v391 = arith.negf %x : f32
  %v392 = arith.negf %x : f32
  %v393 = arith.negf %x : f32
  %v394 = arith.negf %x : f32
  %v395 = arith.negf %x : f32
  %v396 = arith.negf %x : f32
  %v397 = arith.negf %x : f32
  %v398 = arith.negf %x : f32
  %v399 = arith.negf %x : f32
  %v400 = arith.negf %x : f32
  %v401 = arith.negf %x : f32
  %v402 = arith.negf %x : f32
  %v403 = arith.negf %x : f32
  %v404 = arith.negf %x : f32
  %v405 = arith.negf %x : f32
  %v406 = arith.negf %x : f32
  %v407 = arith.negf %x : f32
  %v408 = arith.negf %x : f32
  %v409 = arith.negf %x : f32
  %v410 = arith.negf %x : f32
  %v411 = arith.negf %x : f32
  %v412 = arith.negf %x : f32
  %v413 = arith.negf %x : f32
  %v414 = arith.negf %x : f32
  %v415 = arith.negf %x : f32
  %v416 = arith.negf %x : f32
  %v417 = arith.negf %x : f32
  %v418 = arith.negf %x : f32
  %v419 = arith.negf %x : f32
  %v420 = arith.negf %x : f32
  %v421 = arith.negf %x : f32
  %v422 = arith.negf %x : f32
  %v423 = arith.negf %x : f32
  %v424 = arith.negf %x : f32
  %v425 = arith.negf %x : f32
  %v426 = arith.negf %x : f32
  %v427 = arith.negf %x : f32
  %v428 = arith.negf %x : f32
  %v429 = arith.negf %x : f32
  %v430 = arith.negf %x : f32
  %v431 = arith.negf %x : f32
  %v432 = arith.negf %x : f32
  %v433 = arith.negf %x : f32
  %v434 = arith.negf %x : f32
  %v435 = arith.negf %x : f32
  %v436 = arith.negf %x : f32
  %v437 = arith.negf %x : f32
  %v438 = arith.negf %x : f32
  %v439 = arith.negf %x : f32
  %v440 = arith.negf %x : f32
  %v441 = arith.negf %x : f32
  %v442 = arith.negf %x : f32
  %v443 = arith.negf %x : f32
  %v444 = arith.negf %x : f32
  %v445 = arith.negf %x : f32
  %v446 = arith.negf %x : f32
  %v447 = arith.negf %x : f32
  %v448 = arith.negf %x : f32
  %v449 = arith.negf %x : f32
  %v450 = arith.negf %x : f32
  %v451 = arith.negf %x : f32
  %v452 = arith.negf %x : f32
  %v453 = arith.negf %x : f32
  %v454 = arith.negf %x : f32
  %v455 = arith.negf %x : f32
  %v456 = arith.negf %x : f32
  %v457 = arith.negf %x : f32
  %v458 = arith.negf %x : f32
  %v459 = arith.negf %x : f32
  %v460 = arith.negf %x : f32
  %v461 = arith.negf %x : f32
  %v462 = arith.negf %x : f32
  %v463 = arith.negf %x : f32
  %v464 = arith.negf %x : f32
  %v465 = arith.negf %x : f32
  %v466 = arith.negf %x : f32
  %v467 = arith.negf %x : f32
  %v468 = arith.negf %x : f32
  %v469 = arith.negf %x : f32
  %v470 = arith.negf %x : f32
  %v471 = arith.negf %x : f32
  %v472 = arith.negf %x : f32
  %v473 = arith.negf %x : f32
  %v474 = arith.negf %x : f32
  %v475 = arith.negf %x : f32
  %v476 = arith.negf %x : f32
  %v477 = arith.negf %x : f32
  %v478 = arith.negf %x : f32
  %v479 = arith.negf %x : f32
  %v480 = arith.negf %x : f32
  %v481 = arith.negf %x : f32
  %v482 = arith.negf %x : f32
  %v483 = arith.negf %x : f32
  %v484 = arith.negf %x : f32
  %v485 = arith.negf %x : f32
  %v486 = arith.negf %x : f32
  %v487 = arith.negf %x : f32
  %v488 = arith.negf %x : f32
  %v489 = arith.negf %x : f32
  %v490 = arith.negf %x : f32
  %v491 = arith.negf %x : f32
  %v492 = arith.negf %x : f32
  %v493 = arith.negf %x : f32
  %v494 = arith.negf %x : f32
  %v495 = arith.negf %x : f32
  %v496 = arith.negf %x : f32
  %v497 = arith.negf %x : f32
  %v498 = arith.negf %x : f32
  %v499 = arith.negf %x : f32
  %v500 = arith.negf %x : f32
  %v501 = arith.negf %x : f32
  %v502 = arith.negf %x : f32
  %v503 = arith.negf %x : f32
  %v504 = arith.negf %x : f32
  %v505 = arith.negf %x : f32
  %v506 = arith.negf %x : f32
  %v507 = arith.negf %x : f32
  %v508 = arith.negf %x : f32
  %v509 = arith.negf %x : f32
  %v510 = arith.negf %x : f32
  %v511 = arith.negf %x : f32
  %v512 = arith.negf %x : f32
  fcdp.yield %x : f32
}

// -----

// C1 of fcdp.yield
fcdp.kernel @kernel.a maps [identity] {
^bb0(%x: f32):
  // expected-error@+1 {{expected at least one value}}
  "fcdp.yield"() : () -> ()
}

// -----

// C5
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.kernel @kernel.a maps [identity, row, column, scalar] {
  ^bb0(%a: f32, %b: f32, %c: bf16, %d: f32):
    fcdp.yield %a, %c : f32, bf16
  }
  fcdp.input @x : tensor<4x8xf32> name "x"
  fcdp.input @r : tensor<8xf32> name "r"
  fcdp.input @c : tensor<4x1xbf16> name "c"
  fcdp.input @s : tensor<f32> name "s"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %r = fcdp.read_input @r : tensor<8xf32>
    %c = fcdp.read_input @c : tensor<4x1xbf16>
    %s = fcdp.read_input @s : tensor<f32>
    // expected-error@+1 {{expected a kernel @kernel.b in the module}}
    %0:2 = aten.call "fcdp.kernel.b"(operands = [%x, %r, %c, %s]) : (tensor<4x8xf32>, tensor<8xf32>, tensor<4x1xbf16>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
    return
  }
}

// -----

// C5
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.kernel @kernel.a maps [identity, row, column, scalar] {
  ^bb0(%a: f32, %b: f32, %c: bf16, %d: f32):
    fcdp.yield %a, %c : f32, bf16
  }
  fcdp.input @x : tensor<4x8xf32> name "x"
  fcdp.input @r : tensor<8xf32> name "r"
  fcdp.input @c : tensor<4x1xbf16> name "c"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %r = fcdp.read_input @r : tensor<8xf32>
    %c = fcdp.read_input @c : tensor<4x1xbf16>
    // expected-error@+1 {{expected a list 'operands' of 4 tensors}}
    %0:2 = aten.call "fcdp.kernel.a"(operands = [%x, %r, %c]) : (tensor<4x8xf32>, tensor<8xf32>, tensor<4x1xbf16>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
    return
  }
}

// -----

// C5
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.kernel @kernel.a maps [identity, row, column, scalar] {
  ^bb0(%a: f32, %b: f32, %c: bf16, %d: f32):
    fcdp.yield %a, %c : f32, bf16
  }
  fcdp.input @x : tensor<4x8xf32> name "x"
  fcdp.input @r : tensor<8xbf16> name "r"
  fcdp.input @c : tensor<4x1xbf16> name "c"
  fcdp.input @s : tensor<f32> name "s"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %r = fcdp.read_input @r : tensor<8xbf16>
    %c = fcdp.read_input @c : tensor<4x1xbf16>
    %s = fcdp.read_input @s : tensor<f32>
    // expected-error@+1 {{expected operand 1 to be a static tensor of 'f32', got 'tensor<8xbf16>'}}
    %0:2 = aten.call "fcdp.kernel.a"(operands = [%x, %r, %c, %s]) : (tensor<4x8xf32>, tensor<8xbf16>, tensor<4x1xbf16>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
    return
  }
}

// -----

// C5
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.kernel @kernel.a maps [identity, row, column, scalar] {
  ^bb0(%a: f32, %b: f32, %c: bf16, %d: f32):
    fcdp.yield %a, %c : f32, bf16
  }
  fcdp.input @x : tensor<4x8xf32> name "x"
  fcdp.input @r : tensor<8xf32> name "r"
  fcdp.input @c : tensor<4x1xbf16> name "c"
  fcdp.input @s : tensor<2xf32> name "s"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %r = fcdp.read_input @r : tensor<8xf32>
    %c = fcdp.read_input @c : tensor<4x1xbf16>
    %s = fcdp.read_input @s : tensor<2xf32>
    // expected-error@+1 {{expected operand 3 with the map 'scalar' to have 1 elements}}
    %0:2 = aten.call "fcdp.kernel.a"(operands = [%x, %r, %c, %s]) : (tensor<4x8xf32>, tensor<8xf32>, tensor<4x1xbf16>, tensor<2xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
    return
  }
}

// -----

// C5
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.kernel @kernel.a maps [identity, row, column, scalar] {
  ^bb0(%a: f32, %b: f32, %c: bf16, %d: f32):
    fcdp.yield %a, %c : f32, bf16
  }
  fcdp.input @x : tensor<4x8xf32> name "x"
  fcdp.input @r : tensor<5xf32> name "r"
  fcdp.input @c : tensor<4x1xbf16> name "c"
  fcdp.input @s : tensor<f32> name "s"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %r = fcdp.read_input @r : tensor<5xf32>
    %c = fcdp.read_input @c : tensor<4x1xbf16>
    %s = fcdp.read_input @s : tensor<f32>
    // expected-error@+1 {{expected rows of}}
    %0:2 = aten.call "fcdp.kernel.a"(operands = [%x, %r, %c, %s]) : (tensor<4x8xf32>, tensor<5xf32>, tensor<4x1xbf16>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
    return
  }
}

// -----

// C5
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.kernel @kernel.a maps [identity, row, column, scalar] {
  ^bb0(%a: f32, %b: f32, %c: bf16, %d: f32):
    fcdp.yield %a, %c : f32, bf16
  }
  fcdp.input @x : tensor<4x8xf32> name "x"
  fcdp.input @r : tensor<8xf32> name "r"
  fcdp.input @c : tensor<3x1xbf16> name "c"
  fcdp.input @s : tensor<f32> name "s"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %r = fcdp.read_input @r : tensor<8xf32>
    %c = fcdp.read_input @c : tensor<3x1xbf16>
    %s = fcdp.read_input @s : tensor<f32>
    // expected-error@+1 {{expected rows of}}
    %0:2 = aten.call "fcdp.kernel.a"(operands = [%x, %r, %c, %s]) : (tensor<4x8xf32>, tensor<8xf32>, tensor<3x1xbf16>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
    return
  }
}

// -----

// C5
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.kernel @kernel.a maps [identity, row, column, scalar] {
  ^bb0(%a: f32, %b: f32, %c: bf16, %d: f32):
    fcdp.yield %a, %c : f32, bf16
  }
  fcdp.input @x : tensor<4x8xf32> name "x"
  fcdp.input @r : tensor<8xf32> name "r"
  fcdp.input @c : tensor<4x1xbf16> name "c"
  fcdp.input @s : tensor<f32> name "s"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %r = fcdp.read_input @r : tensor<8xf32>
    %c = fcdp.read_input @c : tensor<4x1xbf16>
    %s = fcdp.read_input @s : tensor<f32>
    // expected-error@+1 {{expected a result of type 'tensor<4x8xbf16>', got 'tensor<4x8xf32>'}}
    %0:2 = aten.call "fcdp.kernel.a"(operands = [%x, %r, %c, %s]) : (tensor<4x8xf32>, tensor<8xf32>, tensor<4x1xbf16>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    return
  }
}

// -----

// C5
module attributes {fcdp.phase = #fcdp.phase<imported>} {
  fcdp.kernel @kernel.a maps [identity, row, column, scalar] {
  ^bb0(%a: f32, %b: f32, %c: bf16, %d: f32):
    fcdp.yield %a, %c : f32, bf16
  }
  fcdp.input @x : tensor<4x8xf32> name "x"
  fcdp.input @r : tensor<8xf32> name "r"
  fcdp.input @c : tensor<4x1xbf16> name "c"
  fcdp.input @s : tensor<f32> name "s"
  func.func @step() {
    %x = fcdp.read_input @x : tensor<4x8xf32>
    %r = fcdp.read_input @r : tensor<8xf32>
    %c = fcdp.read_input @c : tensor<4x1xbf16>
    %s = fcdp.read_input @s : tensor<f32>
    // expected-error@+1 {{expected 2 results, got 1}}
    %0 = aten.call "fcdp.kernel.a"(operands = [%x, %r, %c, %s]) : (tensor<4x8xf32>, tensor<8xf32>, tensor<4x1xbf16>, tensor<f32>) -> tensor<4x8xf32>
    return
  }
}
